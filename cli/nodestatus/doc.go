// Package nodestatus is the summary that podstead status prints.
//
// It owns the decision whether the node is healthy, and the forms of the summary for
// people and for scripts.
//
// It reads the node, its pods and the sources of manifests through the client. It never
// changes anything.
package nodestatus
