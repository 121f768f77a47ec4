// Ranks what the search finds: pages with the words in their own title first, then sections, Python objects, text.
var Scorer = {
  score: ([, title, anchor, , score]) => {
    const words = (new URLSearchParams(location.search).get("q") || "").toLowerCase().split(/\W+/).filter(Boolean);
    // Without its ending, a word is found in its other forms.
    const inTitle = words.filter((word) => title.toLowerCase().includes(word.slice(0, Math.max(4, word.length - 2))));
    return anchor || !words.length ? score : score + (60 * inTitle.length) / words.length;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
