// The data of the page, how numbers are written, and the tables. Texts of the user's come in as text, never as HTML.

const $ = (id) => document.getElementById(id);
window.addEventListener("error", (event) => {
  $("fault").hidden = false;
  $("fault").textContent = `This page has a fault: ${event.message}`;
});

const data = JSON.parse($("data").textContent);
const [ROW, KIND, FROM, LASTS, NAME, AT, KERNEL, THREAD, BYTES, MOVED, OPEN] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
const text = (number) => (number < 0 ? "" : data.texts[number]);
const count = (number) => number.toLocaleString("en-US");
const some = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

function time(ns) {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (ns >= size) return `${(ns / size).toPrecision(4)} ${unit}`;
  }
  return `${Math.round(ns)} ns`;
}

function size(bytes) {
  for (const [unit, size] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (bytes >= size) return `${(bytes / size).toPrecision(4)} ${unit}`;
  }
  return `${bytes} B`;
}

function element(name, content, more = {}) {
  const made = Object.assign(document.createElement(name), more);
  made.append(...[content ?? []].flat());
  return made;
}

/// A number's cell; `data-value` has it as it is.
function cell(value, shown, more = {}) {
  const made = element("td", shown, { className: "number", ...more });
  made.dataset.value = value;
  return made;
}

/// To a slice of the timeline, if that is drawn.
const link = (slice, shown) => (slice < 0 ? shown : element("a", shown, { href: `#slice=${slice}` }));

function table(into, heads, rows, left, what) {
  if (rows.length === 0) {
    into.append(element("p", `There are no ${what}.`, { className: "empty" }));
    return;
  }
  const head = element("thead", element("tr", heads.map((head) => element("th", head))));
  into.append(element("div", element("table", [head, element("tbody", rows.map((row) => element("tr", row)))]), { className: "wide" }));
  if (left > 0) into.append(element("p", `Not shown: ${count(left)} more ${what}, which come later or have less.`, { className: "hint" }));
}

/// Numbers between ranks: `pairs` are [from, to, value, ..]. A square up to 64 ranks, then a list.
function matrix(into, comm, pairs, left, heads, show, what) {
  if (pairs.length === 0 || comm.ranks > 64) {
    const rows = pairs.slice(0, 200).map((pair) => [element("td", `rank ${pair[0]}`), element("td", name(pair[1])), show(pair)]);
    return table(into, heads, rows, left + Math.max(0, pairs.length - 200), what);
  }
  const columns = [...Array(comm.ranks).keys()];
  if (pairs.some((pair) => pair[1] < 0)) columns.push(-1);
  const most = Math.max(1, ...pairs.map((pair) => pair[2]));
  const rows = [...Array(comm.ranks).keys()].map((from) => [
    element("th", `rank ${from}`),
    ...columns.map((to) => {
      const pair = pairs.find((pair) => pair[0] === from && pair[1] === to);
      if (!pair) return element("td", "");
      const made = show(pair);
      Object.assign(made.dataset, { from, to });
      made.style.background = `rgba(66, 133, 244, ${0.05 + (0.45 * pair[2]) / most})`;
      return made;
    }),
  ]);
  table(into, [`${heads[0]} \\ ${heads[1]}`, ...columns.map(name)], rows, left, what);
}

const name = (rank) => (rank < 0 ? "no one rank" : `rank ${rank}`);

function summary() {
  const ranks = Math.max(0, ...data.comms.map((comm) => comm.ranks));
  const parts = [
    some(ranks, "rank"), some(data.processes, "process").replace("processs", "processes"), time(data.lasts),
    `${some(data.puts[0], "put")} of ${size(data.puts[1])}`, `${some(data.waits[0], "wait")} of together ${time(data.waits[1])}`,
  ];
  $("sum").textContent = parts.join(" · ");
  Object.assign($("sum").dataset, { puts: data.puts[0], bytes: data.puts[1], waits: data.waits[0], waited: data.waits[1], ranks });
  const note = (words) => $("notes").append(element("li", words));
  if (data.spans === 0) note("Nothing was recorded: it takes a program that uses ginrs, and kernels for the CPU device.");
  if (data.dropped > 0) note(`The last ${some(data.dropped, "event")} did not fit (GINRS_TIMELINE_EVENTS, or the disk) and are missing everywhere here.`);
  if (data.slices.length < data.spans) {
    note(`Drawn are ${count(data.slices.length)} of ${count(data.spans)} slices, the longest and what led to them; the tables count all of them.`);
  }
  if (data.lost[0] > 0) note(`${some(data.lost[0], "put")} of ${size(data.lost[1])} stand in no table of bytes: several communicators share a device.`);
  if (data.strangers > 0) note(`${some(data.strangers, "wait")} stand in no table of ranks: the communicator is not known.`);
  if (data.allComms > data.comms.length) note(`Tables are of ${data.comms.length} of ${data.allComms} communicators.`);
  if (data.clock.startsWith("several")) note(`Clock: ${data.clock}.`);
}

function tables() {
  const warnings = data.warnings.map((slice) => {
    const of = data.slices[slice];
    const [group] = data.rows[of[ROW]];
    return [cell(of[FROM], link(slice, time(of[FROM]))), element("td", data.groups[group]), element("td", text(of[NAME]))];
  });
  table($("warnings"), ["after", "who", "what"], warnings, data.allWarnings - warnings.length, "warnings");
  const waits = data.slowest.map(([slice, rank, by]) => {
    const of = data.slices[slice];
    const shown = [element("td", rank < 0 ? "" : `rank ${rank}`), element("td", text(of[NAME])), element("td", text(of[AT])), element("td", text(by))];
    return [cell(of[LASTS], link(slice, time(of[LASTS]))), ...shown];
  });
  table($("slowest"), ["lasted", "who", "what", "where", "ended by"], waits, data.waits[0] - waits.length, "waits");
  const places = data.places.map(([place, waits, total, longest, slice]) => [
    element("td", place || "(no line is known)"), cell(waits, count(waits)), cell(total, time(total)), cell(longest, link(slice, time(longest))),
  ]);
  table($("places"), ["line", "waits", "together", "longest"], places, data.allPlaces - places.length, "lines");
  for (const comm of data.comms) {
    const into = $("comms");
    into.append(element("h2", `Communicator ${comm.name}, ${some(comm.ranks, "rank")}`));
    into.append(element("h3", "Bytes from rank to rank"));
    const bytes = element("div", [], { className: "bytes" });
    const put = (pair) => cell(pair[2], size(pair[2]), { title: some(pair[3], "put") });
    matrix(bytes, comm, comm.bytes, comm.left[0], ["from", "to", "bytes"], put, "puts between ranks");
    into.append(bytes, element("h3", "Who waited for whom"));
    const waited = element("div", [], { className: "waited" });
    const wait = (pair) => cell(pair[2], link(pair[5], time(pair[2])), { title: `${some(pair[3], "wait")}, the longest ${time(pair[4])}` });
    matrix(waited, comm, comm.waits, comm.left[1], ["who", "for", "together"], wait, "waits of a rank for another");
    into.append(waited);
  }
}

summary();
tables();
