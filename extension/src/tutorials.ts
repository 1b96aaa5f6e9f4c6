/**
 * The tutorials, which the extension carries as notebooks (build.py puts them beside the bundle, so they come with a wheel as
 * with a clone): listed in a dialog with how far one is, opened as the reader's own copies.
 */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, showErrorMessage } from '@jupyterlab/apputils';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import { ILauncher } from '@jupyterlab/launcher';
import type { Contents } from '@jupyterlab/services';
import { ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { CATEGORY, pythonKernel } from './commands';
import { tileIcon } from './icon';

/** Where the reader's copies are, from the root of the files that the server shows. */
const FOLDER = 'tile-tutorials';

/** A row of tutorials/index.json. */
export interface ITutorial {
  file: string;
  title: string;
  summary: string;
}

interface INotebookContent {
  cells: { cell_type: string; execution_count?: number | null }[];
  metadata: Record<string, unknown>;
}

/** How far one is: code cells that were run, of all; null where there is no copy yet. */
type Progress = { run: number; all: number } | null;

/** A file that stands beside the bundle. */
async function fetched<T>(name: string): Promise<T> {
  const url = URLExt.join(PageConfig.getOption('fullLabextensionsUrl'), 'tilebench', 'tutorials', name);
  const response = await fetch(url);
  if (!response.ok) {
    throw new Error(`${url}: ${response.status} ${response.statusText}`);
  }
  return (await response.json()) as T;
}

/** The names of the files among the reader's copies; null when there is no such folder. */
async function copies(contents: Contents.IManager): Promise<Set<string> | null> {
  const names = async (path: string): Promise<Set<string>> => {
    const { content } = await contents.get(path);
    return new Set((content as Contents.IModel[]).map(model => model.name));
  };
  return (await names('')).has(FOLDER) ? names(FOLDER) : null;
}

async function progress(contents: Contents.IManager, all: ITutorial[]): Promise<Map<string, Progress>> {
  const found = new Map<string, Progress>();
  const there = await copies(contents);
  for (const { file } of all) {
    if (there?.has(file)) {
      const { content } = await contents.get(`${FOLDER}/${file}`, { type: 'notebook', content: true });
      const cells = (content as INotebookContent).cells.filter(cell => cell.cell_type === 'code');
      found.set(file, { run: cells.filter(cell => cell.execution_count).length, all: cells.length });
    }
  }
  return found;
}

/** One button for each tutorial; `choose` is called with that of the reader's choice. */
class TutorialList extends Widget {
  constructor(
    all: ITutorial[],
    done: Map<string, Progress>,
    trans: TranslationBundle,
    choose: (tutorial: ITutorial) => void
  ) {
    super();
    this.addClass('tb-tutorials');
    for (const tutorial of all) {
      const far = done.get(tutorial.file);
      const button = document.createElement('button');
      button.className = 'tb-tutorial';
      button.append(part('strong', tutorial.title), part('span', tutorial.summary));
      button.append(
        part('small', far ? trans.__('%1 of %2 cells run', far.run, far.all) : trans.__('not started'))
      );
      button.addEventListener('click', () => choose(tutorial));
      this.node.append(button);
    }
    this.node.append(
      part('p', trans.__('A tutorial opens as your own copy in %1; delete the copy to start over.', `${FOLDER}/`))
    );
  }
}

function part(name: string, text: string): HTMLElement {
  const node = document.createElement(name);
  node.textContent = text;
  return node;
}

/** Lets the reader choose; null when the dialog was closed. */
async function chosen(app: JupyterFrontEnd, all: ITutorial[], trans: TranslationBundle): Promise<ITutorial | null> {
  let choice: ITutorial | null = null;
  const done = await progress(app.serviceManager.contents, all);
  const dialog: Dialog<unknown> = new Dialog({
    title: trans.__('Tile Tutorials'),
    body: new TutorialList(all, done, trans, tutorial => {
      choice = tutorial;
      dialog.resolve(0);
    }),
    buttons: [Dialog.cancelButton({ label: trans.__('Close') })],
    focusNodeSelector: '.tb-tutorial'
  });
  await dialog.launch();
  return choice;
}

/** Open the reader's copy, made now if there is none. */
async function open(app: JupyterFrontEnd, tutorial: ITutorial): Promise<unknown> {
  const { contents } = app.serviceManager;
  const path = `${FOLDER}/${tutorial.file}`;
  const there = await copies(contents);
  if (!there?.has(tutorial.file)) {
    const content = await fetched<INotebookContent>(tutorial.file);
    const kernelspec = { ...(await pythonKernel(app)), language: 'python' };
    content.metadata = { ...content.metadata, kernelspec };
    if (!there) {
      await contents.save(FOLDER, { type: 'directory' });
    }
    await contents.save(path, { type: 'notebook', format: 'json', content });
  }
  return app.commands.execute('docmanager:open', { path, factory: 'Notebook' });
}

export const tutorials: JupyterFrontEndPlugin<void> = {
  id: 'tilebench:tutorials',
  description: 'Lists the tutorials and opens them.',
  autoStart: true,
  optional: [ICommandPalette, ILauncher, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('tilebench');
    let all: ITutorial[] = [];
    const show = async (choose: () => Promise<ITutorial | null>): Promise<void> => {
      try {
        const tutorial = await choose();
        if (tutorial) {
          await open(app, tutorial);
        }
      } catch (error) {
        await showErrorMessage(trans.__('The tutorials cannot be opened here'), error as Error);
      }
    };
    app.commands.addCommand('tilebench:tutorials', {
      label: trans.__('Tile Tutorials'),
      caption: trans.__('Learn tile programming step by step, with no GPU'),
      icon: args => (args['isPalette'] ? undefined : tileIcon),
      execute: () => show(() => chosen(app, all, trans))
    });
    app.commands.addCommand('tilebench:open-tutorial', {
      label: args => trans.__('Tile Tutorial: %1', all.find(t => t.file === args['file'])?.title ?? ''),
      execute: args => show(() => Promise.resolve(all.find(t => t.file === args['file']) ?? null))
    });
    const offer = (found: ITutorial[]): void => {
      all = found;
      if (!all.length) {
        return;
      }
      palette?.addItem({ command: 'tilebench:tutorials', category: CATEGORY, args: { isPalette: true } });
      for (const { file } of all) {
        palette?.addItem({ command: 'tilebench:open-tutorial', category: CATEGORY, args: { file } });
      }
      launcher?.add({ command: 'tilebench:tutorials', category: CATEGORY, rank: 2 });
    };
    // All else starts, and works, without them.
    fetched<ITutorial[]>('index.json').then(offer, (error: unknown) =>
      console.warn('tilebench: no tutorials', error)
    );
  }
};
