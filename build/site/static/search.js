// Search in the documentation: every word of the query has to be in a section. A word counts most in a
// heading, more at the beginning of a word, and searchIndex is in the order of the pages.
"use strict";

const maxResults = 40;

function score(entry, words) {
  const title = (entry.page + " " + entry.heading).toLowerCase();
  const text = entry.text.toLowerCase();
  let sum = 0;
  for (const word of words) {
    const start = new RegExp("(^|[^\\p{L}\\p{N}])" + word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gu");
    const inTitle = title.includes(word);
    if (!inTitle && !text.includes(word)) return 0;
    if (inTitle) sum += start.test(title) ? 40 : 20;
    sum += Math.min((text.match(start) || []).length, 10) + 1;
  }
  return sum;
}

function search(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  return searchIndex.map((entry) => ({ entry, words, score: score(entry, words) }))
    .filter((result) => result.score)
    .sort((a, b) => b.score - a.score);
}

// excerpt returns the text around the first word of a result.
function excerpt(text, words) {
  const at = Math.max(0, Math.min(...words.map((w) => text.toLowerCase().indexOf(w)).filter((i) => i >= 0), text.length));
  const from = at < 80 ? 0 : text.indexOf(" ", at - 80) + 1;
  return (from ? "… " : "") + text.slice(from, from + 240) + (from + 240 < text.length ? " …" : "");
}

// marked appends a text whose words are marked.
function marked(parent, text, words) {
  const lower = text.toLowerCase();
  let at = 0;
  while (at < text.length) {
    let next = text.length, length = 0;
    for (const word of words) {
      const i = lower.indexOf(word, at);
      if (i >= 0 && (i < next || (i === next && word.length > length))) [next, length] = [i, word.length];
    }
    parent.append(text.slice(at, next));
    if (length) parent.append(Object.assign(document.createElement("mark"), { textContent: text.slice(next, next + length) }));
    at = next + length;
  }
}

function show(query) {
  const results = search(query);
  const found = document.getElementById("found");
  found.textContent = !query.trim() ? "" : results.length ? results.length + " sections" : "No section has all of these words.";
  document.getElementById("results").replaceChildren(...results.slice(0, maxResults).map(({ entry, words }) => {
    const item = document.createElement("li");
    const link = Object.assign(document.createElement("a"), { href: entry.url });
    link.textContent = entry.page + (entry.heading ? " › " + entry.heading : "");
    const text = document.createElement("p");
    marked(text, excerpt(entry.text, words), words);
    item.append(link, text);
    return item;
  }));
}

const input = document.getElementById("query");
input.value = new URLSearchParams(location.search).get("q") || "";
input.addEventListener("input", () => {
  show(input.value);
  try {
    history.replaceState(null, "", "?q=" + encodeURIComponent(input.value));
  } catch {
    // A page of a file has no history of its own in some browsers.
  }
});
show(input.value);
