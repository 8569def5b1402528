// The page: which detector, images in, verdicts out.

import * as api from "./api.js";
import { failedCard, spoken, verdictCard, waitingCard } from "./card.js";
import { byId, count, el, fill, listed, percent, say, score } from "./dom.js";
import { Board } from "./draw.js";
import { follow, glance } from "./stream.js";

const AT_ONCE = 4; // images under way
const CARDS = 100; // verdicts that are kept
const GREY = 64; // pixels: the largest side of an image that is worth drawing by hand
const FEW = 16; // numbers of a row that an example writes out

let told = null; // what the server tells of the detector
let drawing = null; // the result on what is on the board, and its image
const queue = [];
let underWay = 0;
const tally = { typical: 0, atypical: 0, other: 0 };

// ---- Which detector

async function begin() {
  api.askWith(askForToken);
  wire();
  try {
    const { models, version } = await api.models();
    byId("version").textContent = `Typica ${version}`;
    fill(byId("model"), ...models.map(name => el("option", { value: name }, name)));
    byId("choice").hidden = models.length < 2;
    const wanted = new URLSearchParams(location.search).get("model");
    await choose(models.includes(wanted) ? wanted : models[0]);
    byId("sign-out").hidden = !api.hasToken();
  } catch (error) {
    complain(error);
  }
}

async function choose(name, again = false) {
  told = await api.model(name);
  byId("problem").hidden = true;
  byId("model").value = name;
  document.title = `${name} · Typica`;
  byId("suite").textContent = `Typica · ${name}`;
  byId("about").textContent = about(told);
  byId("try").hidden = false;
  byId("features").hidden = told.takes_images;
  byId("images").hidden = !told.takes_images;
  const grey = told.image?.channels === 1 && Math.max(told.image.height ?? Infinity, told.image.width ?? Infinity) <= GREY;
  byId("board").hidden = !grey;
  if (!told.takes_images) showCommand();
  if (grey && !again) showBoard();
  if (told.takes_images) byId("images-note").textContent = howSeen(told.image);
  // A detector whose file is replaced is read again, and decides by another threshold.
  follow(told, () => choose(name, true).then(() => say("The detector has been replaced.")).catch(complain));
}

function about(told) {
  const classes = told.classes ? ` · ${count(told.classes.n)} classes` : "";
  const network = told.origin ? ` on features of ${told.origin.model}` : ` on ${count(told.inputs)} ${told.reads}`;
  return `${told.detector}${network}${classes} · ${decides(told)}`;
}

function decides(told) {
  const known = told.calibration;
  if (told.thresholds) return `one threshold per class, which keeps ${percent(known.tpr)} of known inputs`;
  if (told.threshold === undefined) return "no threshold: fit or calibrate it again";
  const whose = known.source === "held-out" ? `${count(known.n)} held-out inputs` : "its training inputs";
  return `threshold ${score(told.threshold)}, which keeps ${percent(known.tpr)} of ${whose}`;
}

function howSeen({ channels, height, width }) {
  const size = height && width ? `${count(width)} × ${count(height)} pixels` : "images of any size";
  return `The network sees ${size}${channels === 1 ? " of grey" : ""}. Images go to this server and nowhere else; it keeps none.`;
}

// ---- Images

function add(files) {
  if (!told?.takes_images) return;
  for (const file of files) {
    const shown = { name: file.name || "pasted image", url: URL.createObjectURL(file) };
    const card = addCard(shown, waitingCard(shown));
    card.setAttribute("aria-busy", "true");
    queue.push({ file, shown, card, told });
  }
  work();
}

async function work() {
  while (underWay < AT_ONCE && queue.length) {
    const job = queue.shift();
    underWay++;
    judge(job).finally(() => {
      underWay--;
      work();
    });
  }
}

async function judge({ file, shown, card, told: detector }) {
  try {
    const result = await api.judge(detector.name, file, { file: shown.name });
    fill(card, ...verdictCard(shown, result, detector), remover(card, shown));
    card.dataset.verdict = result.verdict ?? "none";
    tallied(result.verdict, 1);
    say(queue.length + underWay > 1 ? tallyText() : spoken(shown.name, result));
  } catch (error) {
    fill(card, ...failedCard(shown, error.message), remover(card, shown));
    card.dataset.verdict = "error";
    say(`${shown.name}: ${error.message}`);
  }
  card.removeAttribute("aria-busy");
  if (detector.name === told.name) glance(told);
}

function addCard(shown, parts) {
  const card = el("li", { className: "card" }, ...parts);
  card.shown = shown;
  byId("cards").prepend(card);
  byId("results").hidden = false;
  while (byId("cards").children.length > CARDS) remove(byId("cards").lastElementChild);
  return card;
}

function remover(card, shown) {
  const button = el("button", { type: "button", className: "remove", "aria-label": `Remove ${shown.name}` }, "×");
  button.addEventListener("click", () => {
    const next = card.nextElementSibling ?? card.previousElementSibling;
    remove(card);
    (next?.querySelector(".remove") ?? byId("files")).focus();
  });
  return button;
}

function remove(card) {
  URL.revokeObjectURL(card.shown.url);
  tallied(card.dataset.verdict, -1);
  card.remove();
  byId("results").hidden = byId("cards").children.length === 0;
}

function tallied(verdict, change) {
  if (verdict === "error" || verdict === undefined) return;
  tally[verdict in tally ? verdict : "other"] += change;
  byId("tally").textContent = tallyText();
}

function tallyText() {
  const parts = [`${count(tally.typical)} typical`, `${count(tally.atypical)} atypical`];
  if (tally.other) parts.push(`${count(tally.other)} without a threshold`);
  return parts.join(", ");
}

// ---- Drawings

const board = new Board(byId("canvas"), async (blob, finished) => {
  if (blob === null) {
    fill(byId("drawn"), el("p", { className: "await" }, "The verdict appears here while you draw."));
    return;
  }
  const detector = told;
  try {
    const result = await api.judge(detector.name, blob, { file: "drawing.png", preview: !finished });
    if (detector.name !== told.name || board.empty) return;
    const old = drawing?.shown.url;
    const shown = { name: "What the network sees", url: URL.createObjectURL(blob) };
    drawing = { shown, result, blob };
    fill(byId("drawn"), el("div", { className: "card", "data-verdict": result.verdict ?? "none" }, ...verdictCard(shown, result, detector)));
    if (old) URL.revokeObjectURL(old);
    if (finished) {
      say(spoken("Drawing", result));
      glance(detector);
    }
  } catch (error) {
    fill(byId("drawn"), el("p", { className: "wrong" }, error.message));
    if (finished) say(`Drawing: ${error.message}`);
  }
});

function showBoard() {
  const names = told.classes?.names ?? [];
  const known = names.length ? `It knows ${listed(names)}. Draw one of them, and then something else: another sign, a letter.` : "Draw something that it knows, and then something that it does not.";
  byId("board-lead").textContent = known;
  drawing = null;
  board.reset({ width: told.image.width, height: told.image.height });
}

// A drawing that was judged goes to the other verdicts when the board is cleared.
function keepDrawing() {
  if (drawing === null || board.empty || !board.counted) return;
  const { result, blob } = drawing;
  const shown = { name: `Drawing ${(keepDrawing.count = (keepDrawing.count ?? 0) + 1)}`, url: URL.createObjectURL(blob) };
  const card = addCard(shown, verdictCard(shown, result, told));
  card.append(remover(card, shown));
  card.dataset.verdict = result.verdict ?? "none";
  tallied(result.verdict, 1);
}

function clearBoard() {
  keepDrawing();
  drawing = null;
  board.clear();
}

// ---- Features

function showCommand() {
  const name = encodeURIComponent(told.name).replaceAll("'", "%27");
  const shown = Array.from({ length: Math.min(told.inputs, FEW) }, (_, i) => ((i % 5) / 4).toFixed(2));
  const row = shown.join(", ") + (told.inputs > FEW ? ", …" : "");
  const lines = [`curl -X POST '${location.origin}/score?model=${name}'`];
  if (api.hasToken()) lines.push(`-H "Authorization: Bearer $TOKEN"`);
  lines.push(`-H 'Content-Type: application/json'`, `-d '{"features": [[${row}]]}'`);
  byId("no-images").textContent = `This detector takes ${told.reads}, not images: ${told.no_images}. Send it rows of ${count(told.inputs)} numbers:`;
  byId("command").textContent = lines.join(" \\\n  ");
  fill(byId("features-note"), "One list of numbers per input. Fitted on a bank of ", el("code", {}, "typica extract"),
    ", a detector knows its network and takes images as well.");
}

async function copyCommand() {
  const text = byId("command").textContent;
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
    byId("copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(byId("command"));
    byId("copy").textContent = "Selected";
  }
  setTimeout(() => { byId("copy").textContent = "Copy"; }, 2000);
}

// ---- The token

function askForToken(wrong) {
  const dialog = byId("token"), field = byId("token-value");
  byId("token-wrong").textContent = wrong ? "That is another token; try again." : "";
  field.value = "";
  if (!dialog.open) dialog.showModal();
  field.focus();
  return new Promise(done => {
    byId("token-form").onsubmit = event => {
      event.preventDefault();
      dialog.close();
      done(field.value.trim());
      byId("sign-out").hidden = false;
    };
  });
}

function complain(error) {
  byId("problem").textContent = error.message;
  byId("problem").hidden = false;
  byId("about").textContent = "";
}

// ---- Mouse, keyboard, clipboard

function wire() {
  byId("model").addEventListener("change", event => choose(event.target.value).catch(complain));
  byId("files").addEventListener("change", event => {
    add(event.target.files);
    event.target.value = "";
  });
  byId("forget").addEventListener("click", () => {
    for (const card of [...byId("cards").children]) if (!card.hasAttribute("aria-busy")) remove(card);
    byId("files").focus();
  });
  byId("undo").addEventListener("click", () => board.undo());
  byId("clear").addEventListener("click", clearBoard);
  for (const name of ["dark", "fit"]) {
    byId(name).addEventListener("change", event => {
      board[name] = event.target.checked;
      board.changed();
    });
  }
  byId("canvas").addEventListener("keydown", event => {
    if (event.key === "Escape") keepDrawing();
  }, { capture: true });
  byId("copy").addEventListener("click", copyCommand);
  byId("sign-out").addEventListener("click", () => {
    api.forgetToken();
    location.reload();
  });
  // A dialog that could be dismissed would leave an empty page behind.
  byId("token").addEventListener("cancel", event => event.preventDefault());
  document.addEventListener("paste", event => {
    if (event.target.closest?.("input[type=password]")) return;
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length) add(files);
  });
  let inside = 0;
  const over = on => byId("drop").classList.toggle("over", on);
  document.addEventListener("dragenter", event => {
    event.preventDefault();
    inside++;
    over(true);
  });
  document.addEventListener("dragleave", () => over(--inside > 0));
  document.addEventListener("dragover", event => event.preventDefault());
  document.addEventListener("drop", event => {
    event.preventDefault();
    inside = 0;
    over(false);
    add(event.dataTransfer.files);
  });
}

begin();
