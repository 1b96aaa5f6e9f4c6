/** Colours for the `%%tile` line and for names of the language, `T.copy`. */
import { syntaxTree } from '@codemirror/language';
import { type Extension, RangeSetBuilder } from '@codemirror/state';
import { Decoration, type DecorationSet, type EditorView, ViewPlugin, type ViewUpdate } from '@codemirror/view';

const HEAD = Decoration.line({ class: 'tb-head-line' });
const MAGIC = Decoration.mark({ class: 'tb-magic' });
const OPTION = Decoration.mark({ class: 'tb-option' });
const NAME = Decoration.mark({ class: 'tb-name' });

function build(view: EditorView): DecorationSet {
  const builder = new RangeSetBuilder<Decoration>();
  const { doc } = view.state;
  const tree = syntaxTree(view.state);
  let isHead = true;
  for (let number = 1; number <= doc.lines; number++) {
    const line = doc.line(number);
    if (isHead) {
      const magic = /%%tile\b/.exec(line.text);
      if (!magic) {
        continue; // a blank line before it
      }
      isHead = false;
      builder.add(line.from, line.from, HEAD);
      builder.add(line.from + magic.index, line.from + magic.index + magic[0].length, MAGIC);
      for (const option of line.text.matchAll(/(?<=\s)--?[a-z][\w-]*/g)) {
        builder.add(line.from + option.index, line.from + option.index + option[0].length, OPTION);
      }
      continue;
    }
    if (!view.visibleRanges.some(r => r.from <= line.to && line.from <= r.to)) {
      continue;
    }
    for (const name of line.text.matchAll(/\bT\.[A-Za-z_]\w*/g)) {
      const from = line.from + name.index;
      if (!/Comment|String/.test(tree.resolveInner(from, 1).name)) {
        builder.add(from, from + name[0].length, NAME);
      }
    }
  }
  return builder.finish();
}

export const decorations: Extension = ViewPlugin.fromClass(
  class {
    constructor(view: EditorView) {
      this.decorations = build(view);
    }

    update(update: ViewUpdate): void {
      if (update.docChanged || update.viewportChanged || syntaxTree(update.startState) !== syntaxTree(update.state)) {
        this.decorations = build(update.view);
      }
    }

    decorations: DecorationSet;
  },
  { decorations: plugin => plugin.decorations }
);
