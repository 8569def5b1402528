// The live stream of one detector: how much it rejects, and whether the inputs have drifted.

import { stream } from "./api.js";
import { recent, wealth } from "./chart.js";
import { byId, count, el, fill, number, percent, score, warn } from "./dom.js";

const EVERY = 2000; // milliseconds
let timer = 0, turn = 0, alarmed = false, silent = false, another = () => {};

/** Show the stream of a detector from now on; told: what the server tells of it. replaced: called when it is another. */
export function follow(told, replaced) {
  turn++;
  alarmed = false;
  another = replaced;
  clearTimeout(timer);
  byId("live").hidden = false;
  look(told, turn);
}

/** Look at once: something has just been judged. */
export function glance(told) {
  clearTimeout(timer);
  look(told, ++turn);
}

async function look(told, mine) {
  if (document.visibilityState === "visible") {
    try {
      const found = (await stream(told.name)).models[told.name];
      if (mine !== turn) return;
      heard(true);
      if (found.digest !== told.digest) {
        another();
        return;
      }
      show(found, told);
    } catch {
      if (mine === turn) heard(false);
    }
  }
  if (mine === turn) timer = setTimeout(() => look(told, mine), EVERY);
}

function heard(answered) {
  byId("beat").textContent = answered ? "live" : "the server does not answer";
  byId("beat").classList.toggle("lost", !answered);
  if (!answered && !silent) warn("The server does not answer.");
  silent = !answered;
}

function show(found, told) {
  const monitor = found.monitor;
  const decides = told.threshold !== undefined || told.thresholds !== undefined;
  const limit = monitor ? 1 / monitor.alpha : null;
  fill(byId("tiles"),
    tile("Judged", count(found.inputs), "inputs"),
    decides ? tile("Rejected", found.window ? percent(found.rejected_ratio) : "–", found.window ? `of the last ${count(found.window)}` : "nothing yet") : null,
    decides && monitor ? tile("Expected", percent(monitor.reject_alpha), "of inputs like the known ones") : null,
    monitor ? tile("Wealth", score(monitor.wealth), `alarm at ${count(Math.round(limit))}`) : null);
  const values = found.recent.filter(input => Number.isFinite(number(input.score)));
  fill(byId("recent"), values.length
    ? recent(values, told.histogram, told.threshold ?? null, room("recent"))
    : el("p", { className: "muted" }, "Nothing has been judged yet."));
  fill(byId("wealth"), monitor
    ? wealth(found.trace, limit, room("wealth"))
    : el("p", { className: "muted" }, "A monitor needs a calibrated detector: typica calibrate."));
  byId("alpha").textContent = monitor ? percent(monitor.alpha) : "–";
  raise(monitor);
}

// Drawn to the room that there is, so that letters have their size on a phone too.
const room = id => Math.max(byId(id).clientWidth, 280);

function raise(monitor) {
  const alarm = Boolean(monitor?.alarm);
  byId("alarm").hidden = !alarm;
  if (alarm) {
    byId("alarm").textContent = `Drift: the inputs are no longer what the detector was calibrated on, since about input ${count(monitor.changed_at + 1)} (alarm at input ${count(monitor.alarm_at + 1)}).`;
    if (!alarmed) warn(byId("alarm").textContent);
  }
  alarmed = alarm;
}

const tile = (name, value, note) =>
  el("div", {}, el("dt", {}, name), el("dd", {}, value), el("dd", { className: "note" }, note));

