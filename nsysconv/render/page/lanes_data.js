// What the time line is drawn from: tiles at several widths, single events of some parts of the time.
const lanes_data = (() => {
  "use strict";
  const DEEPEST = 24;

  // Where in an ascending array the first value above another is.
  function first_above(values, wanted) {
    let from = 0, to = values.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (values[middle] <= wanted) from = middle + 1; else to = middle;
    }
    return from;
  }

  function decode(data) {
    // What the program gave its ranges: drawn as a name that has that color.
    const own = data.colors.map((color) => ({ own: color }));
    const labels = data.labels.kind.map((kind, i) => ({
      number: i, kind, text: data.texts[data.labels.text[i]], short: data.short[i], color: null, class: null,
    }));
    const lanes = data.lanes.map((name, number) => ({ name, number, rows: [], idle: null, tag: data.tags[number],
      group: data.of_group[number] }));
    const row_of = (lane, number) => {
      while (lane.rows.length <= number) lane.rows.push({ lane, levels: [], events: [], starts: [], ends: [] });
      return lane.rows[number];
    };
    data.levels.forEach(({ begin, width, tracks }, number) => {
      for (const track of tracks) {
        let at = 0;
        const start = Float64Array.from(track.tile, (step) => begin + (at += step) * width);
        row_of(lanes[track.lane], track.row).levels[number] = { ...track, start, width };
      }
    });

    // Events that overlap are in rows: each in the first that has room.
    const by_id = new Map(), launched = new Map(), all = data.events;
    let at = 0, left_out = 0;
    all.start.forEach((step, i) => {
      at += step;
      const label = labels[all.label[i]], lane = lanes[all.lane[i]], end = at + all.dur[i];
      const event = { start: at, end, label, lane, row: -1, number: i, own: own[all.color[i]] || null, id: `${data.ids[label.kind]}:${all.id[i]}`,
        text: all.text[i] < 0 ? label.text : data.texts[all.text[i]], sort: data.sorts[all.sort[i]] || "", call: null };
      if (all.call[i]) event.call = `api_call:${all.call[i]}`;
      by_id.set(event.id, event);
      let number = lane.rows.findIndex((row) => !row.ends.length || row.ends[row.ends.length - 1] <= at);
      if (number < 0) number = lane.rows.length;
      if (number >= DEEPEST) {
        left_out++;
        return;
      }
      const row = row_of(lane, number);
      event.row = number;
      row.events.push(event);
      row.starts.push(at);
      row.ends.push(end);
    });
    for (const event of by_id.values()) {
      if (!event.call) continue;
      if (!launched.has(event.call)) launched.set(event.call, []);
      launched.get(event.call).push(event);
    }

    // How long events of each name took; the longest is known wherever it is.
    const lengths = data.durations;
    lengths.label.forEach((number, i) => {
      const label = labels[number], id = `${data.ids[label.kind]}:${lengths.id[i]}`;
      const longest = by_id.get(id) || { start: lengths.start[i], end: lengths.start[i] + lengths.dur[i], label,
        lane: lanes[lengths.lane[i]], row: -1, id, text: label.text, sort: "", call: null, alone: true };
      by_id.set(id, longest);
      Object.assign(label, { class: lengths.class[i], own: data.colors[lengths.color[i]], count: lengths.count[i], sum: lengths.sum[i], longest,
        lengths: lengths.lengths[i] });
    });
    const in_order = with_accounts(data, lanes, by_id);
    return { ...data, labels, lanes: in_order, groups: lanes_groups.decode(in_order, data.groups), by_id, launched, left_out };
  }

  // The lane of each GPU's account lies on top of its streams, what was counted below the lanes of its group; a
  // stream knows when its GPU was idle.
  function with_accounts(data, lanes, by_id) {
    const found = [...lanes];
    for (const account of lanes_account.decode(data.account, data.texts)) {
      const first = found.findIndex((lane) => !lane.account && data.devices[lane.number] === account.device && lane.number < data.streams);
      account.group = first < 0 ? 0 : found[first].group;
      found.splice(Math.max(first, 0), 0, account);
      for (const gap of account.rows[0].events) if (gap.id) by_id.set(gap.id, gap);
      for (const lane of lanes) {
        if (lane.number < data.streams && data.devices[lane.number] === account.device) lane.idle = account.rows[0];
      }
    }
    for (const counter of lanes_counters.decode(data.counters)) {
      const last = found.findLastIndex((lane) => lane.group === counter.group);
      found.splice(last < 0 ? found.length : last + 1, 0, counter);
    }
    return found;
  }

  // What of [start, end) lies in none of some parts, which are in order.
  function outside(parts, start, end) {
    const found = [];
    let at = start;
    for (const [from, to] of parts) {
      if (to <= at || from >= end) continue;
      if (from > at) found.push([at, from]);
      at = to;
    }
    if (at < end) found.push([at, end]);
    return found;
  }

  const holds = (part, low, high) => part[0] <= low && high <= part[1];

  // The tiles of a row between two times, as [first, past] of a level's columns.
  function tiles_between(level, low, high) {
    return [Math.max(first_above(level.start, low - level.width), 0), first_above(level.start, high)];
  }

  // The events of a row between two times, as [first, past]: they do not overlap.
  const events_between = (row, low, high) => [first_above(row.ends, low), first_above(row.starts, high)];

  // What was under way as an event began, the innermost first. Of what began with it, that which holds it
  // comes before it.
  function around(event) {
    const found = [];
    for (const row of event.lane.rows) {
      const other = row.events[first_above(row.starts, event.start) - 1];
      if (other && other.number < event.number && other.end > event.start) found.push(other);
    }
    return found.sort((a, b) => b.number - a.number);
  }

  return { decode, holds, outside, first_above, tiles_between, events_between, around };
})();
