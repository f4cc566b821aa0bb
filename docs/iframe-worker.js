// Lets the search of the site work in pages that are opened as files. Browsers refuse workers there, so this runs the
// script of a worker in a hidden frame, which has the names that such a script uses: postMessage and importScripts.
if (location.protocol === "file:") {
  const load = (frame, url) =>
    new Promise((resolve, reject) => {
      const script = frame.document.createElement("script");
      script.src = url;
      script.onload = resolve;
      script.onerror = () => reject(new Error(`${url} cannot be loaded`));
      frame.document.body.append(script);
    });

  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.element = document.createElement("iframe");
      this.element.hidden = true;
      document.body.append(this.element);
      const frame = (this.frame = this.element.contentWindow);
      frame.document.open();
      frame.document.write("<body></body>");
      frame.document.close();
      frame.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      frame.importScripts = (...urls) =>
        urls.reduce((before, one) => before.then(() => load(frame, one)), Promise.resolve());
      this.ready = load(frame, new URL(url, location.href).href);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.dispatchEvent(new this.frame.MessageEvent("message", { data })));
    }

    terminate() {
      this.element.remove();
    }
  };
}
