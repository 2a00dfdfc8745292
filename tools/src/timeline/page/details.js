// What a slice is, what led to it and what it led to. The address of the page names it (#slice=7), so that it can be passed on.

const before = new Map(), after = new Map();
for (const arrow of data.arrows) {
  before.set(arrow[2], [...(before.get(arrow[2]) ?? []), arrow]);
  after.set(arrow[0], [...(after.get(arrow[0]) ?? []), arrow]);
}

/// The arrows that lead to a slice, and those that it leads to, all the way.
function story(slice) {
  const found = new Set();
  for (const [map, end] of [[before, 0], [after, 2]]) {
    const next = [slice];
    for (let i = 0; i < next.length && i < 1000; i++) {
      for (const arrow of map.get(next[i]) ?? []) {
        found.add(arrow);
        next.push(arrow[end]);
      }
    }
  }
  return found;
}

const kind = (slice) => data.kinds[data.slices[slice][KIND]];
const where = (slice) => {
  const [group, row] = data.rows[data.slices[slice][ROW]];
  return `${data.groups[group]}, ${row}`;
};

function facts(slice) {
  const of = data.slices[slice];
  const all = [["what", `${kind(slice)}: ${text(of[NAME])}`], ["where", where(slice)]];
  const add = (name, shown) => shown && all.push([name, shown]);
  add("line", text(of[AT]));
  add("kernel", text(of[KERNEL]) + (of[THREAD] >= 0 ? `, thread ${of[THREAD]}` : ""));
  add("begins after", time(of[FROM]));
  add(kind(slice) === "put" ? "written in" : "lasts", time(of[LASTS]) + (of[OPEN] ? ": it had not ended when the process did, or the file was full" : ""));
  if (of[BYTES] >= 0) add("bytes", count(of[BYTES]));
  if (of[MOVED] >= 0) add("payload landed after", time(of[MOVED]));
  return all;
}

function showDetails(slice) {
  const into = $("details");
  into.replaceChildren();
  if (slice < 0) return;
  const terms = facts(slice).map(([name, shown]) => [element("dt", name), element("dd", shown)]);
  const to = (words, other) => {
    const of = data.slices[other];
    terms.push([element("dt", words), element("dd", link(other, `${kind(other)}: ${text(of[NAME])}${of[AT] < 0 ? "" : ` at ${text(of[AT])}`}, ${where(other)}`))]);
  };
  for (const arrow of before.get(slice) ?? []) to({ wait: "ended by", kernel: "launched by" }[kind(slice)] ?? "posted by", arrow[0]);
  for (const arrow of after.get(slice) ?? []) to({ wait: "ended", kernel: "ran as" }[kind(arrow[2])] ?? "moved by", arrow[2]);
  into.append(element("dl", terms.flat()));
}
