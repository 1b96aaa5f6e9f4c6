// Modules are numbered in the order in which they are met: the default numbers hash the path of this folder, and the same
// sources have to give the same files in any folder.
module.exports = { optimization: { moduleIds: 'natural' } };
