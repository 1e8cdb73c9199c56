// Texts of the page, for the clipboard.
const clipboard = {
  async copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Not every browser lets a file write to the clipboard.
      const area = Object.assign(document.createElement("textarea"), { value: text });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  },
};
