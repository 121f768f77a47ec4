// Fills the switcher from versions.json, which publish.py writes above each version. From file:// there is none.
(async () => {
  const box = document.getElementById("versions");
  if (!box || location.protocol === "file:") return;
  const root = new URL(document.documentElement.dataset.content_root || "./", location.href);
  try {
    const known = await (await fetch(new URL("../versions.json", root))).json();
    const here = root.pathname.split("/").filter(Boolean).pop();
    const page = location.href.slice(root.href.length);
    for (const name of known.versions) {
      const option = new Option(name === known.latest ? `${name} (latest)` : name, name, false, name === here);
      box.append(option);
    }
    box.parentElement.hidden = false;
    box.addEventListener("change", () => location.assign(new URL(`../${box.value}/${page}`, root)));
  } catch { /* a site that stands alone */ }
})();
