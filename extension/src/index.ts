/** The plugins of the extension. */
import { board } from './board';
import { cells } from './cells';
import { commands } from './commands';
import { mime } from './mime';
import { tutorials } from './tutorials';

export default [mime, cells, board, commands, tutorials];
