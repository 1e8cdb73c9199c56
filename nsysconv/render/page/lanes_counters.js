// Lanes of what was counted over time, such as memory in use: an area as high as its share of the most.
const lanes_counters = (() => {
  "use strict";
  const HEIGHT = 30;

  const decode = (counters) => counters.map(({ name, tag, group, start, dur, value, words }) => ({
    name, tag, group, rows: [], number: 0, counter: { start, end: start.map((at, i) => at + dur[i]), value, words, top: Math.max(...value, 1) },
  }));

  function draw(pen, paint, { counter }, { low, high, width }, y) {
    const x_of = (time) => (time - low) / (high - low) * width, { start, end, value, top, words } = counter;
    const first = lanes_data.first_above(end, low), past = lanes_data.first_above(start, high);
    pen.fillStyle = paint.series[6];
    for (let i = first; i < past; i++) {
      const left = Math.max(x_of(start[i]), 0), right = Math.min(x_of(end[i]), width), tall = HEIGHT * value[i] / top;
      pen.fillRect(left, y + HEIGHT - tall, right - left + 0.5, tall);
    }
    pen.fillStyle = paint.quiet;
    pen.font = "11px system-ui, sans-serif";
    pen.fillText(`to ${words[value.indexOf(Math.max(...value))]}`, 4, y + 10);
    return past - first;
  }

  // What it was at a place, as an event of the time line.
  function at(lane, view, x) {
    const { start, end, words } = lane.counter, time = view.low + x / view.width * (view.high - view.low);
    const i = lanes_data.first_above(end, time);
    if (i >= start.length || start[i] > time) return null;
    return { tile: true, start: start[i], end: end[i], lane, row: 0,
      said: `${lane.name}: at most ${words[i]} in ${drawing.duration(end[i] - start[i])} from ${start[i].toLocaleString("en")} ns` };
  }

  return { HEIGHT, decode, draw, at };
})();
