// What a selection holds: of GPUs the time by class, of names the time in it, both cut at its edges.
const lanes_selection = (() => {
  "use strict";
  const MOST = 5;
  const duration = (ns) => drawing.duration(+ns.toPrecision(4));

  // By label: its time in it, of how many events, and whether that is the least, for tiles say only the
  // most of each.
  function times_of_names(data, { from, to, lanes }) {
    const found = new Map();
    const of = (label) => {
      if (!found.has(label)) found.set(label, { label, time: 0, events: new Set(), is_least: false });
      return found.get(label);
    };
    const known = data.parts.map(([low, high]) => [Math.max(low, from), Math.min(high, to)]).filter(([low, high]) => low < high);
    const is_known = data.parts.some((part) => lanes_data.holds(part, Math.max(from, data.first), Math.min(to, data.last)));
    const rest = is_known ? [] : lanes_data.outside(known, from, to);
    for (const row of lanes.flatMap((lane) => lane.account ? [] : lane.rows)) {
      for (const [low, high] of is_known ? [[from, to]] : known) {
        const [first, past] = lanes_data.events_between(row, low, high);
        for (let i = first; i < past; i++) {
          const event = row.events[i], name = of(event.label);
          name.time += Math.max(Math.min(event.end, high) - Math.max(event.start, low), 0);
          name.events.add(event);
        }
      }
      const level = row.levels.filter(Boolean).pop();
      for (const [low, high] of level ? rest : []) {
        const [first, past] = lanes_data.tiles_between(level, low, high);
        for (let i = first; i < past; i++) {
          if (level.start[i] < low || level.start[i] + level.width > high) continue;
          const name = of(data.labels[level.label[i]]);
          name.time += level.most[i];
          name.is_least = true;
        }
      }
    }
    return { names: [...found.values()].sort((a, b) => b.time - a.time), is_known };
  }

  // Of each GPU that has a lane in it the time by class, the longest first.
  function times_of_gpus(data, { from, to, lanes }) {
    const devices = new Set(lanes.filter((lane) => !lane.counter && (lane.account || lane.number < data.streams))
      .map((lane) => lane.account ? lane.device : data.devices[lane.number]));
    return data.lanes.filter((lane) => lane.account && devices.has(lane.device)).map((lane) => {
      const times = lanes_account.times(lane.account, from, to);
      const classes = lane.account.classes.map((name, place) => ({ name, words: lane.account.words[place], time: times[place] }));
      return { name: lane.name.split(":")[0], classes: classes.filter(({ time }) => time >= 0.5).sort((a, b) => b.time - a.time) };
    });
  }

  function gpu_line({ name, classes }, length) {
    const share = (time) => time && time < length / 2000 ? "< 0.1 %" : `${(100 * time / length).toFixed(1)} %`, is_idle = (each) => each.name.startsWith("idle_");
    const busy = classes.reduce((sum, each) => is_idle(each) ? sum : sum + each.time, 0);
    const listed = classes.map((each) => `${is_idle(each) ? "idle, " : ""}${each.words} ${duration(Math.round(each.time))} (${share(each.time)})`);
    return `${name} busy for ${share(busy)}${listed.length ? `: ${listed.join(", ")}` : ""}`;
  }

  // A list for each sort of event: what took most of the selected time.
  const SORTS = [["Kernels", ["kernel"]], ["Copies and sets", ["memcpy", "memset", "migration"]], ["Graphs", ["graph_launch"]],
    ["Calls", ["api_call"]], ["Operators", ["operator"]], ["Ranges", ["range"]]];
  function lists(data, names) {
    return SORTS.map(([title, kinds]) => {
      const all = names.filter(({ label, time }) => kinds.includes(data.ids[label.kind]) && time > 0);
      const lines = all.slice(0, MOST).map(({ label, time, events, is_least }) => ({ label, words:
        is_least ? `at least ${duration(time)}` : `${duration(time)} in ${events.size.toLocaleString("en")}` }));
      return { title, lines, more: all.length - lines.length };
    }).filter(({ lines }) => lines.length);
  }

  // All that is said of it: a line on what is selected, one on each GPU, and lists of names.
  function said(data, selection) {
    const { from, to, lanes } = selection, { names, is_known } = times_of_names(data, selection);
    const where = lanes.length === data.lanes.length ? "" : ` on ${lanes.length === 1 ? lanes[0].name : `${lanes.length} lanes`}`;
    return {
      head: `Selected: ${drawing.duration(to - from)} from ${from.toLocaleString("en")} ns${where}`,
      gpus: times_of_gpus(data, selection).map((gpu) => gpu_line(gpu, to - from)),
      lists: lists(data, names),
      is_known,
    };
  }

  return { said };
})();
