// Package podinputs resolves what a pod refers to into plain values: the priority,
// overhead, node selector and runtime handler of its classes, the variables and
// mounts of its containers, the names and the DNS settings of its sandbox, its
// user namespace, and the credentials with which its images are pulled.
//
// It owns the rules of those resolutions, the revisions of the objects that a
// container was created from, and the files in a pod's directory that containers
// mount: /etc/hosts and the termination messages. It reads the objects of the
// manifests for pods of files and URLs, and those of the cluster for pods
// that an API server has bound; a pod never sees the objects of the other kind.
//
// It never keeps state of a run, never calls the runtime, and never decides
// whether a pod may start. It keeps one resolved value per pod, valid for one
// revision of the pod and of its classes.
package podinputs
