/**
 * Search in pages that are opened from a folder: browsers start no worker from a file, so a frame runs its script there.
 *
 * Pages from a server are left as they are. The name is the one by which mkdocs-material's offline plugin sees that it need
 * not load such a script from another host, and by which the worker sees that it is in a frame.
 */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html>";
      document.body.append(frame);
      this.inside = new Promise((resolve) => {
        frame.addEventListener("load", () => {
          const inside = frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = Object.assign(inside.document.createElement("script"), { src: url });
          script.addEventListener("load", () => resolve(inside));
          inside.document.body.append(script);
        });
      });
    }

    async postMessage(data) {
      (await this.inside).dispatchEvent(new MessageEvent("message", { data }));
    }
  };
  window.Worker = window.IFrameWorker;
}
