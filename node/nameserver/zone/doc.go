// Package zone computes the names of pods and Services, as records that a name server answers
// with, by the rules of the Kubernetes DNS specification for headless services.
//
// It owns the form of the records and the rules of names. It reads pods with their statuses and
// Services, and has only pure functions: it never reads a file, a clock or the network.
package zone
