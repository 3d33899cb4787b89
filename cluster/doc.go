// Package cluster joins this box to a Kubernetes cluster. It is made only if
// there is a kubeconfig; nothing else needs it, and the pods of files and URLs
// run the same whether an API server answers or not.
//
// It owns the node's object and lease in the API, the mirror pods of static
// pods, the statuses of all pods of the node, and the events there. It reads the
// node's description, the pods with their statuses and the events through its
// Config, and watches the node's own objects in the API. The pods that the cluster
// binds to the node it delivers as a source like files and URLs, and keeps what
// these refer to in its Objects; it never starts, ends or changes a pod itself.
//
// It is level-triggered: whatever wakes it, here or in the API, it compares what
// is with what should be and does the one next thing for each object.
//
// It proves itself with a certificate that it has the cluster sign, and sign anew
// (package certificate). Until it has one it asks for nothing else.
//
// All requests go over one link, which knows whether the API server answers, but
// for those about callers of this node's port: they go beside it, so that many
// callers do not make the API server seem away.
//
// It is the only package that imports client-go, and of that the parts that are
// small: rest and tools/clientcmd, with a scheme of the groups used.
package cluster
