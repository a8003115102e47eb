// Two builds side by side. Kernels of two builds have nothing in common but the nodes of the model
// that they compute: those that share one, directly or by way of others, are compared as one.

/** Groups of rows of both builds, those whose times differ most first. */
function compareBuilds(builds) {
  const parents = new Map();
  const find = (key) => {
    let at = key;
    while ((parents.get(at) ?? at) !== at) at = parents.get(at);
    return at;
  };
  const join = (one, two) => parents.set(find(one), find(two));
  const key = (build, node) => `${build.nodes[node].operator}\n${build.nodes[node].name}`;
  const keysOf = (build, row) => row.nodes.map((node) => key(build, node));
  for (const build of builds) {
    for (const row of build.rows) {
      const keys = keysOf(build, row);
      keys.slice(1).forEach((other) => join(other, keys[0]));
    }
  }
  const groups = new Map();
  const group = (name) => {
    if (!groups.has(name)) {
      groups.set(name, { times: builds.map(() => 0), nodes: builds.map(() => []), names: [] });
    }
    return groups.get(name);
  };
  builds.forEach((build, number) => {
    for (const row of build.rows) {
      const keys = keysOf(build, row);
      group(keys.length ? find(keys[0]) : "copies").times[number] += row.time_us;
    }
    build.nodes.forEach((node, at) => {
      const own = groups.get(find(key(build, at)));
      if (!own || !build.rowsOfNode[at].length) return;
      own.nodes[number].push(at);
      if (!own.names.includes(node.name) && own.names.length < 12) own.names.push(node.name);
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
  for (const time of row.times) element.append(make("span", "number-cell", time ? microseconds(time) : "–"));
  const ratio = make("span", "number-cell", two ? (one / two).toFixed(2) : "");
  if (one > 1.05 * two) ratio.classList.add("slow");
  element.append(ratio, make("span", "title-cell", row.names.join(", ") || "copies"));
  const nodes = row.nodes[explorer.build.number];
  element.classList.toggle("marked", nodes.some((node) => explorer.nodes.has(node)));
  element.title = row.names.join("\n");
}
