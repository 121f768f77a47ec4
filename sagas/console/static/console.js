"use strict";
// What a page can do beyond links and forms: stay current, tell times in words, keys. All of it works without, too.
(() => {
  const SHORTEST = 2000, LONGEST = 30000, UNREAD = 10000;
  const main = document.querySelector("main"), [fresh, trouble] = ["fresh", "trouble"].map((id) => document.getElementById(id));
  let tag = "", pause = SHORTEST, timer = 0, seen = Date.now(), away = 0, why = "", asking = false;

  const span = (seconds) => {
    for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
      if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
    }
    return `${Math.max(Math.floor(seconds), 0)} s`;
  };

  const tellTimes = () => {
    const now = Date.now() + Number(document.querySelector("main").dataset.ahead) * 1000;
    for (const one of document.querySelectorAll("time[data-ago]")) {
      const at = new Date(one.dateTime);
      one.textContent = `${span((now - at) / 1000)} ago`;
      if (!one.dataset.local) {
        one.dataset.local = "1";
        one.title = `${at.toLocaleString()} · ${one.title}`;
      }
    }
    fresh.className = away ? "away" : "";
    fresh.textContent = away ? "" : `· ${span((Date.now() - seen) / 1000)} ago`;
    // Read out when it changes: what counts seconds is not.
    const told = away ? `${why} since ${new Date(away).toLocaleTimeString()}` : "";
    if (trouble.textContent !== told) trouble.textContent = told;
  };

  // What the reader opened, closed, ticked or is typing in stays as it is, and what is being sent is sent.
  const callbacks = {
    beforeAttributeUpdated: (name, node) =>
      !(name === "open" && node.matches("details, dialog")) && !["data-rev", "data-local", "data-sent"].includes(name)
      && !(name === "title" && node.matches("time")) && !(name === "class" && node.matches("[data-row]")),
    beforeNodeMorphed: (old, now) => {
      if (old.nodeType !== 1 || !old.matches("input, textarea, select") || old.type === "hidden") return true;
      if (old.name !== now.name) return true;
      if (old.type !== "checkbox" && old.type !== "radio") return false;
      // A tick is for what it was made at, and never for what has come into its place.
      if (old.value === now.value) now.toggleAttribute("checked", old.checked);
      return true;
    },
  };

  const busy = () =>
    document.hidden || document.querySelector("dialog[open], details.dialog[open], form[data-sent]")
    || document.activeElement?.matches("main input:not([type=checkbox]), main textarea, main select");

  const stale = (reason) => {
    away = away || seen;
    why = reason;
    pause = SHORTEST * 2;
  };
  const refresh = async () => {
    clearTimeout(timer);
    if (asking) return;
    asking = true;
    try {
      const answer = await fetch(location.href, { headers: tag ? { "If-None-Match": tag } : {}, redirect: "error" });
      if (answer.status === 401) { location.reload(); return; }
      if (answer.status === 200) {
        tag = answer.headers.get("ETag") || "";
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        Idiomorph.morph(main, page.querySelector("main"), { morphStyle: "outerHTML", callbacks });
        Idiomorph.morph(document.querySelector("nav"), page.querySelector("nav"));
        document.title = page.title;
        pause = SHORTEST;
        // The row that one is at may have moved.
        const at = rows().findIndex((one) => one.classList.contains("here"));
        if (at < 0) place(row, false); else row = at;
      } else if (answer.status === 304) {
        // What could not be read is asked for again before long.
        pause = Math.min(pause * 1.5, document.querySelector("[data-unread]") ? UNREAD : LONGEST);
      } else {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const said = page.querySelector("main .error")?.textContent.slice(0, 200) || `answer ${answer.status}`;
        const gone = answer.status === 503 && /out of reach|no answer/.test(said);
        stale(gone ? "API out of reach" : `No news (${said})`);
        return;
      }
      seen = Date.now();
      away = 0;
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      stale("Console out of reach");
    } finally {
      asking = false;
      main.dataset.rev = Number(main.dataset.rev) + 1;
      tellTimes();
      plan();
    }
  };

  // The answer to a form is not to be asked for again; what takes many calls, only when one says so.
  const live = !("still" in main.dataset);
  const plan = () => {
    clearTimeout(timer);
    if (live) timer = setTimeout(() => (busy() ? plan() : refresh()), pause);
  };
  document.addEventListener("visibilitychange", () => { if (!document.hidden && live) { pause = SHORTEST; plan(); } });

  let row = -1;
  const rows = () => [...document.querySelectorAll("main [data-row]")];
  const place = (index, scroll = true) => {
    const all = rows();
    for (const one of all) one.classList.remove("here");
    if (index < 0 || !all.length) return;
    row = Math.min(Math.max(index, 0), all.length - 1);
    all[row].classList.add("here");
    if (scroll) {
      all[row].scrollIntoView({ block: "nearest" });
      all[row].querySelector("a, input")?.focus({ preventScroll: true });
    }
  };

  const copy = async (text, button) => {
    await navigator.clipboard.writeText(text);
    if (button) {
      const word = button.textContent;
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = word; }, 1500);
    }
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button.dataset.copy, button);
  });
  // Nothing is sent twice by a double click.
  document.addEventListener("submit", (event) => {
    if (event.target.dataset.sent) event.preventDefault();
    if (event.target.method === "post") event.target.dataset.sent = "1";
  });
  window.addEventListener("pageshow", () => { for (const one of document.forms) delete one.dataset.sent; });

  let going = false;
  const places = { a: "/", s: "/sagas", d: "/letters", t: "/types" };
  const keys = {
    j: () => place(row + 1),
    k: () => place(row - 1),
    x: () => { const one = rows()[row]?.querySelector("input[type=checkbox]"); if (one) one.checked = !one.checked; },
    Enter: () => { const one = rows()[row]?.querySelector("a"); if (one) one.click(); },
    "/": () => document.getElementById("search").focus(),
    g: () => { going = true; },
    ".": () => {
      const next = document.querySelector("main [data-next]");
      if (next?.tagName === "SUMMARY") next.parentElement.open = true;
      next?.focus();
    },
    c: () => { const id = document.getElementById("saga-id") || rows()[row]?.querySelector(".id"); if (id) copy(id.textContent); },
    r: () => { if (main.dataset.still !== "posted") refresh(); },
    "?": () => document.getElementById("keys").showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = document.activeElement;
    if (event.key === "Escape") {
      going = false;
      const opened = at?.closest("details.dialog[open]");
      opened?.removeAttribute("open");
      at?.blur();
      opened?.querySelector("summary").focus();
      return;
    }
    if (at?.matches("input:not([type=checkbox]):not([type=radio]), textarea, select") || document.querySelector("dialog[open]")) return;
    const went = going;
    going = false;
    if (went && places[event.key]) { event.preventDefault(); location.href = places[event.key]; return; }
    if (event.key === "Enter" && (row < 0 || at?.matches("a, button, summary"))) return;
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });

  // A link to something folded opens it.
  const unfold = () => { const one = location.hash.length > 1 && document.getElementById(location.hash.slice(1)); if (one && one.tagName === "DETAILS") one.open = true; };
  window.addEventListener("hashchange", unfold);
  unfold();
  tellTimes();
  setInterval(tellTimes, 1000);
  plan();
  document.documentElement.dataset.ready = "";  // from here on keys are heard
})();
