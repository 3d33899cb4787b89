// Package podview owns the pods as clients see them: the resolved spec with the status,
// as the same pointer while nothing changed. It reads the views of the workers, and never
// changes a pod or a status.
package podview
