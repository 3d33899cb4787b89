package api

import "time"

// LeaveResult is the response after the node has left its cluster.
type LeaveResult struct {
	// Leftovers are instructions for what only an administrator of the cluster can remove.
	Leftovers string `json:"leftovers,omitempty"`
}

// Kubeconfig is what a client needs to connect to this node and to authenticate.
type Kubeconfig struct {
	// Node is the name of this node, User that of the client.
	Node string `json:"node"`
	User string `json:"user"`
	// Role is read, exec, edit or admin.
	Role string `json:"role"`
	// ID identifies the kubeconfig for its revocation.
	ID string `json:"id"`
	// Server is the URL of this node.
	Server string `json:"server"`
	// ServerName is the name in the serving certificate that clients of another URL verify.
	ServerName string `json:"serverName"`
	// RemoteAddress is the address of the port for other hosts, empty if there is none.
	RemoteAddress string `json:"remoteAddress,omitempty"`
	// The CA of the server, and the certificate and key of the client, in PEM.
	CertificateAuthority string `json:"certificateAuthority"`
	ClientCertificate    string `json:"clientCertificate"`
	ClientKey            string `json:"clientKey"`
	// Expires is when the client certificate expires.
	Expires time.Time `json:"expires"`
}
