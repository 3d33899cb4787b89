// Package gc keeps what pods leave behind within bounds, so that a disk does
// not fill over the years: dead containers and sandboxes, logs, images.
//
// It owns, for each, a pure selection of what goes and a runner that removes
// it. A runner does nothing while nothing changes.
//
// It reads what is observed of the runtime, and the log directories. It never
// removes what runs, what another client of the runtime made, or anything of a
// pod of which its caller reports that it is not to be touched, as are pods whose
// source has not delivered. It never ends a pod.
package gc
