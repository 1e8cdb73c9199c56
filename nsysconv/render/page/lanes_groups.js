// The lanes in groups that fold, one for each GPU and process, below those that are pinned: where they lie, and
// their labels beside them.
const lanes_groups = (() => {
  "use strict";
  const HEAD = 22, GAP = 5, TOP = 32;
  const MANY = 6, QUIET = 0.01, MANY_METRICS = 4;

  // The groups, in the order of their lanes. Of many lanes those are quiet that were busy for less than a
  // hundredth of what the busiest was.
  function decode(lanes, names) {
    const groups = names.map((name) => ({ name, lanes: [], is_folded: false, is_whole: false, is_measured: true, top: 0 }));
    for (const lane of lanes) groups[lane.group].lanes.push(lane);
    for (const group of groups) {
      const plain = group.lanes.filter((lane) => !lane.account && !lane.counter), most = Math.max(...plain.map(busy), 1);
      for (const lane of plain) lane.is_quiet = plain.length > MANY && busy(lane) < QUIET * most;
      group.metrics = group.lanes.filter((lane) => lane.is_metric);
      group.is_measured = group.metrics.length <= MANY_METRICS || group.metrics.length === group.lanes.length;
    }
    return groups.filter((group) => group.lanes.length);
  }

  // For how long a lane was busy: its busiest row, by the widest tiles or by its events.
  function busy({ rows }) {
    return Math.max(...rows.map(({ levels, starts, ends }) => {
      const tiles = levels.find(Boolean);
      return tiles ? tiles.busy.reduce((sum, time) => sum + time, 0) : ends.reduce((sum, end, i) => sum + end - starts[i], 0);
    }), 0);
  }

  // A folded group keeps its account: the rest of it is hidden, and so are quiet lanes and many metrics. What is
  // pinned is seen.
  const is_hidden = (group, lane) => !lane.account && !lane.is_pinned
    && (group.is_folded || (lane.is_quiet && !group.is_whole) || (lane.is_metric && !group.is_measured));

  // Where lanes lie, one below the other; returns the height of all, and where the pinned ones end.
  function arrange(groups, height_of) {
    let height = TOP;
    const put = (lane) => {
      lane.top = height;
      lane.height = height_of(lane);
      if (!lane.is_hidden) height += lane.height + GAP;
    };
    for (const group of groups) for (const lane of group.lanes) lane.is_hidden = is_hidden(group, lane);
    pinned(groups).forEach(put);
    const bottom = height;
    for (const group of groups) {
      group.top = height;
      height += HEAD;
      group.lanes.filter((lane) => !lane.is_pinned && !lane.is_metric).forEach(put);
      group.metrics_top = height;
      if (has_toggle(group)) height += HEAD;
      group.lanes.filter((lane) => !lane.is_pinned && lane.is_metric).forEach(put);
    }
    return { height: height + GAP, bottom };
  }

  const pinned = (groups) => groups.flatMap((group) => group.lanes).filter((lane) => lane.is_pinned);
  const has_toggle = (group) => !group.is_folded && group.metrics.length > MANY_METRICS;
  // Where on the canvas a lane lies: a pinned one stays while the others are scrolled.
  const y_of = (lane, { scroll }) => lane.is_pinned ? lane.top : lane.top - scroll;

  // So that a lane is to be seen.
  function show(groups, lane) {
    const group = groups.find((each) => each.lanes.includes(lane));
    group.is_folded = false;
    group.is_whole ||= lane.is_quiet;
  }

  // Writes the labels into a box. `changed` is called when a group is folded or unfolded, `pin` with the lane whose
  // label was clicked.
  function label(groups, box, bottom, changed, pin) {
    const put = (name, top, properties, inside = box) => {
      const made = Object.assign(document.createElement(name), properties);
      made.style.top = `${top}px`;
      inside.append(made);
      return made;
    };
    const focus = document.activeElement && document.activeElement.dataset.group;
    box.replaceChildren();
    const kept = bottom > TOP ? put("div", 0, { className: "pinned" }) : box;
    if (kept !== box) kept.style.height = `${bottom}px`;
    // By keys a lane is pinned from the canvas: so many labels would be a long way for Tab.
    const name_lane = (lane, textContent, inside) => {
      const made = put("button", lane.top, { type: "button", textContent, tabIndex: -1, className: "lane" }, inside);
      made.title = `${lane.name}: ${lane.is_pinned ? "pinned on top; click to unpin" : "click to pin on top"}`;
      made.setAttribute("aria-pressed", Boolean(lane.is_pinned));
      made.addEventListener("click", () => pin(lane));
    };
    for (const group of groups) for (const lane of pinned([group])) name_lane(lane, `${lane.tag}, ${group.name}`, kept);
    groups.forEach((group, number) => {
      const toggle = (textContent, is_open, words, act, className, top = group.top) => {
        const made = put("button", top, { type: "button", textContent, className, title: words });
        made.setAttribute("aria-expanded", is_open);
        made.setAttribute("aria-label", words);
        made.dataset.group = `${className} ${number}`;
        made.addEventListener("click", () => { act(); changed(); });
        if (made.dataset.group === focus) made.focus({ preventScroll: true });
      };
      toggle(`${group.is_folded ? "\u25b8" : "\u25be"} ${group.name}`, !group.is_folded, `lanes of ${group.name}`,
        () => { group.is_folded = !group.is_folded; }, "group");
      const quiet = group.lanes.filter((lane) => lane.is_quiet).length, count = group.metrics.length;
      if (quiet && !group.is_folded) {
        toggle(`${group.is_whole ? "\u2212" : "+"}${quiet} quiet`, group.is_whole, `${quiet} quiet lanes of ${group.name}`,
          () => { group.is_whole = !group.is_whole; }, "more");
      }
      if (has_toggle(group)) {
        toggle(`${group.is_measured ? "\u2212" : "+"}${count} metrics`, group.is_measured, `${count} metrics of ${group.name}`,
          () => { group.is_measured = !group.is_measured; }, "metrics", group.metrics_top);
      }
      for (const lane of group.lanes) if (!lane.is_hidden && !lane.is_pinned) name_lane(lane, lane.tag, box);
    });
  }

  return { decode, arrange, pinned, y_of, show, label, TOP, HEAD };
})();
