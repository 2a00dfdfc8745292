// The timeline: rows of slices on a canvas. Only what is in view is drawn; slices that share a pixel are one.

const canvas = $("canvas"), scroll = $("scroll"), pen = canvas.getContext("2d");
const HEIGHT = 18, GUTTER = 190, RULER = 20;
const COLOURS = { call: "#7e8a97", launch: "#b58a3c", kernel: "#4a7fb5", block: "#7fa8d1", put: "#3d9970", wait: "#d1495b", move: "#8d6cab", store: "#3d9970", signal: "#c9a227", warning: "#e8590c" };
/// More arrows than these are only drawn of the chosen slice.
const ARROWS = 500;

const whole = [0, Math.max(data.lasts, 1)];
let view = [...whole], chosen = -1, told = new Set();
const folded = new Set();

const inRow = data.rows.map(() => []);
data.slices.forEach((slice, number) => inRow[slice[ROW]].push(number));
inRow.forEach((all) => all.sort((a, b) => data.slices[a][FROM] - data.slices[b][FROM]));

/// What stands below each other: [group] or [group, row].
let shown = [], top = [];
function layOut() {
  shown = [];
  top = data.rows.map(() => -1);
  data.groups.forEach((_, group) => {
    const rows = data.rows.flatMap((row, number) => (row[0] === group ? [number] : []));
    if (rows.length === 0) return;
    const head = shown.push([group]) - 1;
    for (const row of rows) {
      top[row] = folded.has(group) ? head : shown.push([group, row]) - 1;
    }
  });
  canvas.style.height = `${scroll.clientHeight}px`;
  $("space").style.height = `${Math.max(scroll.clientHeight, shown.length * HEIGHT + RULER)}px`;
}

const width = () => Math.max(1, canvas.clientWidth - GUTTER);
const x = (ns) => GUTTER + ((ns - view[0]) / (view[1] - view[0])) * width();
const at = (pixel) => view[0] + ((pixel - GUTTER) / width()) * (view[1] - view[0]);
const y = (row) => RULER + top[row] * HEIGHT - scroll.scrollTop;

/// The first slice of a row that ends at or behind a time: in a row nothing overlaps.
function first(all, ns) {
  let [low, high] = [0, all.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const slice = data.slices[all[middle]];
    if (slice[FROM] + slice[LASTS] < ns) low = middle + 1;
    else high = middle;
  }
  return low;
}

function drawRow(row, high) {
  const all = inRow[row];
  let edge = -1;
  for (let i = first(all, view[0]); i < all.length; i++) {
    const slice = data.slices[all[i]];
    const left = x(slice[FROM]);
    if (left > canvas.clientWidth) break;
    const right = Math.max(x(slice[FROM] + slice[LASTS]), left + (data.kinds[slice[KIND]] === "warning" ? 4 : 1));
    if (right <= edge) continue;
    const from = Math.max(left, GUTTER), wide = Math.min(right, canvas.clientWidth) - from;
    edge = Math.max(Math.ceil(left), left + 1);
    if (wide <= 0) continue;
    pen.fillStyle = COLOURS[data.kinds[slice[KIND]]];
    pen.fillRect(from, high + 2, Math.max(wide, 1), HEIGHT - 4);
    if (slice[MOVED] >= 0) {
      const signal = Math.max(x(slice[FROM] + slice[MOVED]), GUTTER);
      pen.fillStyle = COLOURS.signal;
      if (right > signal) pen.fillRect(signal, high + HEIGHT - 6, right - signal, 4);
    }
    if (wide > 30) {
      pen.fillStyle = "#ffffff";
      pen.fillText(text(slice[NAME]).slice(0, Math.floor((wide - 6) / 6)), from + 3, high + HEIGHT / 2);
    }
    if (all[i] === chosen) {
      pen.strokeStyle = colour("--text");
      pen.lineWidth = 2;
      pen.strokeRect(from, high + 1, Math.max(wide, 2), HEIGHT - 2);
    }
  }
}

function drawArrow([from, fromTime, to, toTime], strong) {
  const [x0, y0] = [x(fromTime), y(data.slices[from][ROW]) + HEIGHT / 2];
  const [x1, y1] = [x(toTime), y(data.slices[to][ROW]) + HEIGHT / 2];
  pen.strokeStyle = pen.fillStyle = colour("--text");
  pen.globalAlpha = strong ? 1 : 0.35;
  pen.lineWidth = strong ? 2 : 1;
  const bend = Math.min(80, Math.max(12, Math.abs(x1 - x0) / 2));
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
  pen.stroke();
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x1 - 6, y1 - 3);
  pen.lineTo(x1 - 6, y1 + 3);
  pen.fill();
  pen.globalAlpha = 1;
}

function drawArrows() {
  const seen = [];
  for (const arrow of data.arrows) {
    if (arrow[3] < view[0] || arrow[1] > view[1]) continue;
    const rows = [y(data.slices[arrow[0]][ROW]), y(data.slices[arrow[2]][ROW])];
    if (Math.max(...rows) < 0 || Math.min(...rows) > canvas.clientHeight) continue;
    seen.push(arrow);
  }
  const few = seen.length <= ARROWS;
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, RULER, width(), canvas.clientHeight);
  pen.clip();
  for (const arrow of seen) {
    if (told.has(arrow)) drawArrow(arrow, true);
    else if (few) drawArrow(arrow, false);
  }
  pen.restore();
  return few ? "" : ` · ${count(seen.length)} arrows in view: drawn are those of the chosen slice`;
}

function drawRuler() {
  pen.fillStyle = colour("--back");
  pen.fillRect(0, 0, canvas.clientWidth, RULER);
  pen.fillStyle = colour("--soft");
  const ns = (view[1] - view[0]) / Math.max(1, width() / 130);
  const power = 10 ** Math.floor(Math.log10(Math.max(ns, 1)));
  const step = Math.max(1, [1, 2, 5, 10].find((n) => n * power >= ns) * power);
  for (let t = Math.ceil(view[0] / step) * step; t <= view[1]; t += step) {
    pen.fillRect(x(t), RULER - 5, 1, 5);
    pen.fillText(time(t), x(t) + 3, RULER / 2);
  }
}

let styles;
const colour = (variable) => styles.getPropertyValue(variable);

function draw() {
  styles = getComputedStyle(document.documentElement);
  const ratio = window.devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = canvas.clientHeight * ratio;
  pen.scale(ratio, ratio);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const from = Math.max(0, Math.floor((scroll.scrollTop - RULER) / HEIGHT));
  const to = Math.min(shown.length, from + Math.ceil(canvas.clientHeight / HEIGHT) + 2);
  let last = null;
  for (let i = from; i < to; i++) {
    const [group, row] = shown[i];
    const high = RULER + i * HEIGHT - scroll.scrollTop;
    if (row === undefined) {
      pen.fillStyle = colour("--head");
      pen.fillRect(0, high, canvas.clientWidth, HEIGHT);
      pen.fillStyle = colour("--text");
      pen.fillText(`${folded.has(group) ? "▸" : "▾"} ${data.groups[group]}`, 6, high + HEIGHT / 2);
      last = null;
      continue;
    }
    drawRow(row, high);
    pen.fillStyle = colour("--back");
    pen.fillRect(0, high, GUTTER, HEIGHT);
    pen.fillStyle = colour("--soft");
    if (data.rows[row][1] !== last) pen.fillText(data.rows[row][1], 16, high + HEIGHT / 2, GUTTER - 20);
    last = data.rows[row][1];
  }
  const left = drawArrows();
  drawRuler();
  $("view").textContent = `${time(view[1] - view[0])} from ${time(view[0])}${left}`;
  Object.assign($("view").dataset, { from: Math.round(view[0]), to: Math.round(view[1]) });
}

let asked = false;
function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    draw();
  });
}

function show(from, to) {
  const wide = Math.min(Math.max(to - from, 10), whole[1] - whole[0]);
  const start = Math.min(Math.max(from, whole[0]), whole[1] - wide);
  view = [start, start + wide];
  redraw();
}

const zoom = (factor, around = (view[0] + view[1]) / 2) => show(around - (around - view[0]) * factor, around + (view[1] - around) * factor);
const pan = (part) => show(view[0] + part * (view[1] - view[0]), view[1] + part * (view[1] - view[0]));

/// The slice under the pointer, -1 for none.
function under(event) {
  const box = canvas.getBoundingClientRect();
  const [px, py] = [event.clientX - box.left, event.clientY - box.top];
  const entry = shown[Math.floor((py - RULER + scroll.scrollTop) / HEIGHT)];
  if (py < RULER || !entry) return { slice: -1 };
  if (entry.length < 2 || px < GUTTER) return { slice: -1, group: entry.length < 2 ? entry[0] : undefined };
  const all = inRow[entry[1]];
  const number = all[first(all, at(px - 1))];
  return { slice: number !== undefined && data.slices[number][FROM] <= at(px + 1) ? number : -1 };
}

function choose(slice, goes) {
  chosen = data.slices[slice] ? slice : -1;
  told = chosen < 0 ? new Set() : story(chosen);
  showDetails(chosen);
  if (goes && chosen >= 0) {
    const times = [...told].flatMap((arrow) => [arrow[1], arrow[3]]);
    const [from, lasts] = [data.slices[chosen][FROM], data.slices[chosen][LASTS]];
    const [low, high] = [Math.min(from, ...times), Math.max(from + lasts, ...times)];
    const group = data.rows[data.slices[chosen][ROW]][0];
    if (folded.delete(group)) layOut();
    show(low - (high - low) * 0.2, high + (high - low) * 0.2);
    scroll.scrollTop = top[data.slices[chosen][ROW]] * HEIGHT - scroll.clientHeight / 2;
    scroll.scrollIntoView({ block: "nearest" });
  }
  redraw();
}

const named = () => Number(/^#slice=(\d+)$/.exec(location.hash)?.[1] ?? -1);
window.addEventListener("hashchange", () => named() !== chosen && choose(named(), true));

let held = null;
canvas.addEventListener("pointerdown", (event) => {
  held = { x: event.clientX, y: event.clientY, view: [...view], top: scroll.scrollTop, moved: false };
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (held) {
    const [dx, dy] = [event.clientX - held.x, event.clientY - held.y];
    held.moved ||= Math.abs(dx) + Math.abs(dy) > 3;
    if (!held.moved) return;
    const ns = (dx / width()) * (held.view[1] - held.view[0]);
    scroll.scrollTop = held.top - dy;
    show(held.view[0] - ns, held.view[1] - ns);
    return;
  }
  const { slice } = under(event);
  $("tip").hidden = slice < 0;
  if (slice < 0) return;
  $("tip").textContent = facts(slice).map(([name, shown]) => `${name}: ${shown}`).join("\n");
  $("tip").style.left = `${Math.min(event.clientX + 14, innerWidth - $("tip").offsetWidth - 8)}px`;
  $("tip").style.top = `${Math.min(event.clientY + 14, innerHeight - $("tip").offsetHeight - 8)}px`;
});
canvas.addEventListener("pointerup", (event) => {
  const { slice, group } = under(event);
  if (held && !held.moved) {
    if (group !== undefined) {
      if (!folded.delete(group)) folded.add(group);
      layOut();
    } else {
      history.replaceState(null, "", slice < 0 ? "#" : `#slice=${slice}`);
      choose(slice, false);
    }
    redraw();
  }
  held = null;
});
canvas.addEventListener("pointercancel", () => (held = null));
canvas.addEventListener("pointerleave", () => ($("tip").hidden = true));
canvas.addEventListener("wheel", (event) => {
  const along = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.shiftKey ? event.deltaY : 0;
  if (!event.ctrlKey && !event.metaKey && along === 0) return; // the rows scroll
  event.preventDefault();
  if (along !== 0) pan(along / 1000);
  else zoom(Math.exp(event.deltaY / 300), at(event.clientX - canvas.getBoundingClientRect().left));
}, { passive: false });
canvas.addEventListener("keydown", (event) => {
  const keys = {
    w: () => zoom(0.7), s: () => zoom(1 / 0.7), a: () => pan(-0.2), d: () => pan(0.2), f: () => show(...whole),
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), Escape: () => choose(-1, false),
  };
  if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
$("in").addEventListener("click", () => zoom(0.5));
$("out").addEventListener("click", () => zoom(2));
$("whole").addEventListener("click", () => show(...whole));
scroll.addEventListener("scroll", redraw);
window.addEventListener("resize", () => (layOut(), redraw()));

for (const [kind, colour] of Object.entries(COLOURS)) {
  const patch = element("i");
  patch.style.background = colour;
  $("legend").append(element("span", [patch, kind]));
}
layOut();
if (named() >= 0) choose(named(), true);
draw();
