// The lanes in groups that fold, one for each GPU and process: where they lie, and their labels beside them.
const lanes_groups = (() => {
  "use strict";
  const HEAD = 22, GAP = 5, TOP = 32;
  const MANY = 6, QUIET = 0.01;

  // The groups, in the order of their lanes. Of many lanes those are quiet that were busy for less than a
  // hundredth of what the busiest was.
  function decode(lanes, names) {
    const groups = names.map((name) => ({ name, lanes: [], is_folded: false, is_whole: false, top: 0 }));
    for (const lane of lanes) groups[lane.group].lanes.push(lane);
    for (const { lanes: own } of groups) {
      const plain = own.filter((lane) => !lane.account && !lane.counter), most = Math.max(...plain.map(busy), 1);
      for (const lane of plain) lane.is_quiet = plain.length > MANY && busy(lane) < QUIET * most;
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

  // A folded group keeps its account: the rest of it is hidden, and so are quiet lanes.
  const is_hidden = (group, lane) => !lane.account && (group.is_folded || (lane.is_quiet && !group.is_whole));

  // Where lanes lie, one below the other; returns the height of all.
  function arrange(groups, height_of) {
    let height = TOP;
    for (const group of groups) {
      group.top = height;
      height += HEAD;
      for (const lane of group.lanes) {
        lane.is_hidden = is_hidden(group, lane);
        lane.top = height;
        lane.height = height_of(lane);
        if (!lane.is_hidden) height += lane.height + GAP;
      }
    }
    return height + GAP;
  }

  // So that a lane is to be seen.
  function show(groups, lane) {
    const group = groups.find((each) => each.lanes.includes(lane));
    group.is_folded = false;
    group.is_whole ||= lane.is_quiet;
  }

  // Writes the labels into a box; `changed` is called when a group is folded or unfolded.
  function label(groups, box, changed) {
    const put = (name, top, properties) => {
      const made = Object.assign(document.createElement(name), properties);
      made.style.top = `${top}px`;
      box.append(made);
      return made;
    };
    const focus = document.activeElement && document.activeElement.dataset.group;
    box.replaceChildren();
    groups.forEach((group, number) => {
      const toggle = (textContent, is_open, words, act, className) => {
        const made = put("button", group.top, { type: "button", textContent, className, title: words });
        made.setAttribute("aria-expanded", is_open);
        made.setAttribute("aria-label", words);
        made.dataset.group = `${className} ${number}`;
        made.addEventListener("click", () => { act(); changed(); });
        if (made.dataset.group === focus) made.focus({ preventScroll: true });
      };
      toggle(`${group.is_folded ? "\u25b8" : "\u25be"} ${group.name}`, !group.is_folded, `lanes of ${group.name}`,
        () => { group.is_folded = !group.is_folded; }, "group");
      const quiet = group.lanes.filter((lane) => lane.is_quiet).length;
      if (quiet && !group.is_folded) {
        toggle(`${group.is_whole ? "\u2212" : "+"}${quiet} quiet`, group.is_whole, `${quiet} quiet lanes of ${group.name}`,
          () => { group.is_whole = !group.is_whole; }, "more");
      }
      for (const lane of group.lanes) if (!lane.is_hidden) put("span", lane.top, { textContent: lane.tag, title: lane.name });
    });
  }

  return { decode, arrange, show, label, TOP, HEAD };
})();
