// Lanes of what was counted over time, memory in use and sampled metrics: an area as high as its share of the most.
const lanes_counters = (() => {
  "use strict";
  const HEIGHT = 30;

  // A value holds until the next. Of metrics each has the least, mean and greatest of some samples.
  const decode = (counters) => counters.map(({ name, tag, group, start: steps, end: last, high, ...own }) => {
    let at = 0;
    const start = steps.map((step) => at += step), end = [...start.slice(1), last];
    return { name, tag, group, rows: [], number: 0, is_metric: Boolean(own.mean),
      counter: { ...own, start, end, high, mean: own.mean || high, top: own.top || Math.max(...high, 1) } };
  });

  const amount = ({ unit }, value) => `${value.toLocaleString("en", { maximumSignificantDigits: 4 })}${unit ? ` ${unit}` : ""}`;

  // Solid up to the mean, faint up to the greatest.
  function draw(pen, paint, { counter }, { low, high, width }, y) {
    const x_of = (time) => (time - low) / (high - low) * width, { start, end, top, words } = counter;
    const first = lanes_data.first_above(end, low), past = lanes_data.first_above(start, high);
    const fill = (values, color) => {
      pen.fillStyle = color;
      for (let i = first; i < past; i++) {
        const left = Math.max(x_of(start[i]), 0), right = Math.min(x_of(end[i]), width), tall = HEIGHT * Math.max(values[i], 0) / top;
        pen.fillRect(left, y + HEIGHT - tall, right - left + 0.5, tall);
      }
    };
    if (counter.low) fill(counter.high, drawing.mix(paint.series[6], paint.bg, 0.4));
    fill(counter.mean, paint.series[6]);
    pen.font = "11px system-ui, sans-serif";
    const most = `to ${words ? words[counter.high.indexOf(Math.max(...counter.high))] : amount(counter, top)}`;
    pen.fillStyle = paint.bg;
    pen.fillRect(2, y, pen.measureText(most).width + 4, 13);
    pen.fillStyle = paint.quiet;
    pen.fillText(most, 4, y + 10);
    return past - first;
  }

  // What it was at a place, as an event of the time line.
  function at(lane, view, x) {
    const { counter } = lane, { start, end, high, words } = counter, time = view.low + x / view.width * (view.high - view.low);
    const i = lanes_data.first_above(end, time);
    if (i >= start.length || start[i] > time) return null;
    const count = words ? 0 : counter.count[i], one = count > 1 ? `${amount(counter, counter.mean[i])} on average, from `
      + `${amount(counter, counter.low[i])} to ${amount(counter, high[i])} in ${count.toLocaleString("en")} samples,` : "";
    const what = words ? `at most ${words[i]} in` : one || `${amount(counter, high[i])} for`;
    return { tile: true, start: start[i], end: end[i], lane, row: 0,
      said: `${lane.name}: ${what} ${drawing.duration(end[i] - start[i])} from ${start[i].toLocaleString("en")} ns` };
  }

  return { HEIGHT, decode, draw, at };
})();
