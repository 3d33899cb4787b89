// Package cluster joins this node to a Kubernetes cluster. It is only constructed
// with a kubeconfig; nothing else needs it, and static pods run the same whether
// an API server responds or not.
//
// It owns the Node object, lease and CSINode object in the API, the mirror pods of static pods,
// the statuses of all pods of the node, and their events. Of a PersistentVolumeClaim it writes how the
// node has expanded the volume. It also owns the file of the events that the API server has. It reads the description
// of the node, the pods with their statuses and the events through its Config, and
// watches the node's own objects in the API. It delivers the pods that the cluster
// binds to the node as a source like files and URLs, and keeps the objects that
// they refer to, and what their volumes need, in its Objects; it never starts, terminates or changes a pod
// itself.
//
// It is level-triggered: after each notification, from here or from the API, it
// compares the actual with the desired state and takes the next step for each
// object.
//
// It authenticates with a certificate that the cluster signs and renews (package
// certificate). Until it has one it requests nothing else.
//
// All requests share one connection, which knows whether the API server responds.
// The exception are reviews of the clients of this node's port: many clients must
// not make the API server appear unreachable.
//
// It is the only package that imports client-go's network packages: rest,
// tools/cache and tools/clientcmd, with a scheme of the groups used.
package cluster
