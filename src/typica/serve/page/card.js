// One verdict, shown: the image, what was decided, where its score lies, what it resembles, and why.

import { examples, knownImage } from "./api.js";
import { histogram, mood } from "./chart.js";
import { count, el, listed, number, percent, pValue, score } from "./dom.js";

const SMALL = 64; // pixels up to which an image is shown as squares
const WORDS = { typical: "typical", atypical: "atypical" };
const SIGNS = { typical: "✓", atypical: "✕" };

/** Return what a card holds while its image is judged. */
export function waitingCard(shown) {
  return [thumbnail(shown), el("div", { className: "facts" }, heading(shown.name), el("p", { className: "muted" }, "Judging …"))];
}

/** Return what a card holds where there is no verdict. */
export function failedCard(shown, message) {
  return [
    thumbnail(shown),
    el("div", { className: "facts" }, heading(shown.name), el("p", { className: "wrong" }, message)),
  ];
}

/** Return what a card holds: the verdict of a detector (what the server tells of it) on an image. */
export function verdictCard(shown, result, told) {
  const facts = el("div", { className: "facts" }, heading(shown.name, result.verdict), numbers(result, told));
  if (told.histogram) facts.append(histogram(told.histogram, result, inWords(result, told)));
  facts.append(el("p", { className: "why" }, why(result, told)));
  return [thumbnail(shown), facts, resembles(result, told)].filter(Boolean);
}

/** Say a result in one sentence, for those who listen. */
export function spoken(name, result) {
  const p = result.p_value === null ? "" : `, p-value ${pValue(result.p_value)}`;
  const nearest = result.nearest === null ? "" : `, nearest class ${result.nearest}`;
  return `${name}: ${WORDS[result.verdict] ?? "no verdict"}, score ${score(result.score)}${p}${nearest}.`;
}

function thumbnail({ url, name }) {
  const image = el("img", { src: url, alt: `The image ${name}`, draggable: false });
  image.addEventListener("load", () => image.classList.toggle("small", Math.max(image.naturalWidth, image.naturalHeight) <= SMALL));
  image.addEventListener("error", () => image.replaceWith(el("span", { className: "unseen", "aria-hidden": "true" }, "?")));
  return el("div", { className: "thumbnail" }, image);
}

function heading(name, verdict) {
  const badge = el("span", { className: `badge ${mood(verdict)}` });
  const sign = el("span", { "aria-hidden": "true" }, SIGNS[verdict] ?? "·");
  badge.append(sign, ` ${WORDS[verdict] ?? "no threshold"}`);
  return el("div", { className: "verdict" }, verdict === undefined ? null : badge, el("h3", {}, name));
}

function numbers(result, told) {
  const known = told.calibration ?? {};
  const rows = [["Score", score(result.score), null]];
  if (result.threshold !== null) rows.push(["Threshold", score(result.threshold), kept(known)]);
  if (result.p_value !== null) rows.push(["p-value", pValue(result.p_value), `of ${count(known.n)} held out`]);
  const pairs = rows.map(([name, value, note]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value), note ? el("dd", { className: "note" }, note) : null));
  return el("dl", { className: "numbers" }, ...pairs);
}

function kept(known) {
  return known.tpr === undefined ? null : `keeps ${percent(known.tpr)}`;
}

function inWords(result, told) {
  const n = told.calibration?.n;
  return `Histogram of the scores of ${count(n)} known inputs, with this score ${score(result.score)}`
    + (result.threshold === null ? "." : ` and the threshold ${score(result.threshold)}.`);
}

/** Say why: where the score lies among those of known inputs, and what adds up to it. */
export function why(result, told) {
  const story = result.explanation ?? {};
  const parts = [];
  if (result.verdict === null) {
    parts.push("The detector is not calibrated and decides nothing: this is its score alone.");
  } else if (story.below !== null && story.below !== undefined) {
    parts.push(ranked(story.below / 100, result.verdict === "typical"));
  } else {
    const place = result.verdict === "typical" ? "at or above" : "below";
    parts.push(`Its score is ${place} the threshold. Calibrated on held-out inputs, the detector would tell a p-value as well.`);
  }
  if (result.nearest !== null && result.verdict === "atypical") {
    parts.push(`Of all classes it is nearest to ${result.nearest}, but not near enough.`);
  } else if (result.nearest !== null) {
    const ahead = result.runner_up === null ? "" : `, ${score(result.margin)} ahead of ${result.runner_up}`;
    parts.push(`It matches ${result.nearest} best${ahead}.`);
  }
  if (result.verdict === "atypical") parts.push(...against(story));
  for (const term of story.terms ?? []) parts.push(`${term.words}.`);
  if (story.note) parts.push(`${story.note}.`);
  return parts.join(" ");
}

function ranked(below, typical) {
  if (below === 0) return "No known input scores lower.";
  if (typical) return `${percent(below)} of known inputs score lower.`;
  return `Only ${percent(below)} of known inputs score lower.`;
}

function against(story) {
  const found = [];
  for (const [word, excess] of [["missing", false], ["in excess", true]]) {
    const names = (story.contributions ?? []).filter(part => part.excess === excess)
      .map(part => part.name ?? part.feature);
    if (names.length) found.push(`${names.length === 1 ? "Feature" : "Features"} ${word}: ${listed(names)}.`);
  }
  return found;
}

// The classes that match best, each with its most typical images, and the nearest known inputs.
function resembles(result, told) {
  const parts = [];
  for (const [i, found] of (result.classes ?? []).entries()) {
    const name = String(found.name);
    const head = el("div", { className: "class-name" }, el("span", { className: "muted" }, i ? "then" : "nearest class"), el("strong", {}, name));
    if (Number.isFinite(number(found.similarity))) head.append(el("span", { className: "muted num" }, score(found.similarity)));
    const row = el("div", { className: "known" });
    parts.push(el("div", { className: "class" }, head, told.shows_known ? row : null));
    if (told.shows_known) showExamples(row, told, name);
  }
  const neighbours = result.explanation?.neighbours ?? [];
  if (neighbours.length) parts.push(nearest(neighbours, told));
  return parts.length ? el("div", { className: "resembles" }, ...parts) : null;
}

async function showExamples(row, told, name) {
  try {
    const found = await examples(told.name, told.digest, name);
    row.append(...found.map(known => thumb(told, known.row, `Known, typical of ${name}: ${known.file ?? `row ${known.row}`}`)));
  } catch { /* the class has no images, and the verdict stands without them */ }
}

function nearest(neighbours, told) {
  const head = el("div", { className: "class-name" }, el("span", { className: "muted" }, "nearest known inputs"));
  const list = el("div", { className: "known" });
  for (const one of neighbours) {
    const label = one.label ?? one.file ?? `row ${one.row}`;
    const text = `${label}, ${score(one.similarity)}`;
    list.append(told.shows_known
      ? el("figure", {}, thumb(told, one.row, `Known: ${one.file ?? text}`), el("figcaption", {}, String(label)))
      : el("span", { className: "chip" }, text));
  }
  return el("div", { className: "class" }, head, list);
}

function thumb(told, row, words) {
  const image = el("img", { alt: words, title: words, draggable: false });
  image.addEventListener("load", () => image.classList.toggle("small", image.naturalWidth <= SMALL));
  knownImage(told.name, row).then(url => url ? (image.src = url) : image.remove(), () => image.remove());
  return image;
}
