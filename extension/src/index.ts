/** The plugins of the extension. */
import { mime } from './mime';

export default [mime];
