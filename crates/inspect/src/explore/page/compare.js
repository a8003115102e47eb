// Two builds side by side. Kernels of two builds have nothing in common but the nodes of the model
// that they compute. The home of a node is the longest of the kernels that it became part of: homes
// of one node are compared with each other, and what is home to no node counts with its last one.

/** Groups of rows of both builds, those whose times differ most first. */
function compareBuilds(builds) {
  const parents = new Map();
  const find = (key) => {
    let at = key;
    while ((parents.get(at) ?? at) !== at) at = parents.get(at);
    return at;
  };
  const rowKey = (build, row) => `${build.number} ${row}`;
  const nodeKey = (node) => `${node.operator}\n${node.name}`;
  const homes = builds.map((build) => build.rowsOfNode.map((rows) => rows.reduce(
    (most, row) => (most === null || build.rows[row].time_us > build.rows[most].time_us ? row
      : most), null)));
  // The home of a node in the build where it was met first.
  const first = new Map();
  builds.forEach((build, number) => build.nodes.forEach((node, at) => {
    const home = homes[number][at];
    if (home === null) return;
    const key = rowKey(build, home);
    const other = first.get(nodeKey(node));
    if (other === undefined) first.set(nodeKey(node), key);
    else parents.set(find(key), find(other));
  }));
  const groups = new Map();
  const groupOf = (name) => {
    if (!groups.has(name)) {
      groups.set(name, { times: builds.map(() => 0), nodes: builds.map(() => []), names: [] });
    }
    return groups.get(name);
  };
  builds.forEach((build, number) => {
    const isHome = new Set(homes[number]);
    for (const row of build.rows) {
      const last = row.nodes[row.nodes.length - 1];
      const own = isHome.has(row.number) || last === undefined ? row.number : homes[number][last];
      const group = groupOf(last === undefined ? "copies" : find(rowKey(build, own)));
      group.times[number] += row.time_us;
    }
    build.nodes.forEach((node, at) => {
      if (homes[number][at] === null) return;
      const own = groupOf(find(rowKey(build, homes[number][at])));
      own.nodes[number].push(at);
      if (!own.names.includes(node.name)) own.names.push(node.name);
    });
  });
  const rows = [...groups.values()];
  const gap = ({ times: [one, two] }) => Math.abs(one - two);
  rows.sort((one, two) => gap(two) - gap(one));
  const [one, two] = builds;
  return { rows, note: `${microseconds(one.total)} and ${microseconds(two.total)}: `
    + `${(one.total / two.total).toFixed(2)} times` };
}

function fillComparison(element, row, explorer) {
  const [one, two] = row.times;
  for (const time of row.times) {
    element.append(make("span", "number-cell", time ? microseconds(time) : "–"));
  }
  const ratio = make("span", "number-cell", two ? (one / two).toFixed(2) : "");
  if (one > 1.05 * two) ratio.classList.add("slow");
  element.append(ratio, make("span", "title-cell", row.names.join(", ") || "copies"));
  const nodes = row.nodes[explorer.build.number];
  element.classList.toggle("marked", nodes.some((node) => explorer.nodes.has(node)));
  element.title = row.names.join("\n");
}
