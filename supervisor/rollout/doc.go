// Package rollout decides which revision of each static pod is in effect.
//
// It is between manifest.PodConfig, whose updates it reads, and the sync loop, for
// which it is the PodConfig. It owns the choice between the revision of the manifest,
// the one that runs, and earlier ones, and the files below the root directory that
// keep this choice and the revisions across restarts. Pods of an API server pass
// through unchanged. It never talks to the runtime and never starts or stops a pod: it
// asks the node, an interface, to prepare a revision, and lets updates through.
//
// A revision of a pod is in effect when the supervisor has it. An edited manifest does
// not come into effect at once: its revision is the candidate, and is prepared while
// the one in effect runs on. If the pod has podstead.io/rollback-after, the revision
// then has to become Ready, or to succeed, within that time; otherwise the last good
// revision, the last one that was Ready, is prepared and replaces it.
//
// The transitions of a rollout:
//
//	none         add       progressing
//	stable       choose    preparing
//	progressing  choose    preparing
//	rolledBack   choose    preparing
//	undone       choose    preparing
//	preparing    choose    preparing
//	rollingBack  choose    preparing
//	preparing    revert    progressing
//	rollingBack  revert    progressing
//	rolledBack   revert    progressing
//	undone       revert    progressing
//	stable       revert    progressing
//	progressing  revert    progressing
//	preparing    prepared  progressing
//	rollingBack  prepared  rolledBack
//	progressing  settled   stable
//	progressing  pinned    undone
//	progressing  failed    rollingBack
//	rolledBack   failed    rolledBack
//	stable       remove    none
//	preparing    remove    none
//	progressing  remove    none
//	rollingBack  remove    none
//	rolledBack   remove    none
//	undone       remove    none
//
// A trigger that is not in the table is ignored. choose: another revision than the one
// in effect is desired: the manifest was edited, or a request was made. revert: the one
// in effect is desired again. settled: the revision in effect was Ready, or nothing
// judges it; pinned: the same of one that a request chose. An edit that changes the
// running pod in place, such as a resize, is a revert. A revision that fails while
// nothing better is known stays in effect; a rollback is never rolled back.
//
// All of this happens in one goroutine, Run. What others may ask for is behind a lock
// that is never held during I/O.
package rollout
