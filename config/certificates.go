package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Certificates are the settings of the certificates that a cluster signs for the node.
type Certificates struct {
	// Bootstrap is the kubeconfig for requesting the first certificate; empty for none.
	Bootstrap string
	// Dir is the directory of the certificates.
	Dir string
	// Rotate renews the client certificate, RotateServing requests and renews the
	// serving certificate.
	Rotate, RotateServing bool
}

func (c *Certificates) settings() []setting {
	return []setting{
		{flag: "bootstrap-kubeconfig", own: "bootstrapKubeconfig", value: file(&c.Bootstrap, ""),
			help: "kubeconfig `file` for requesting the client certificate of this node if --kubeconfig does not exist or its " +
				"certificate has expired; --kubeconfig is then written"},
		{flag: "cert-dir", own: "certDir", value: file(&c.Dir, ""),
			help: "`directory` of the certificates that the cluster signs (default: pki in --root-dir)"},
		{flag: "rotate-certificates", field: "rotateCertificates", value: boolean(&c.Rotate, true),
			help: "renew the client certificate from the cluster before it expires"},
		{flag: "rotate-server-certificates", field: "serverTLSBootstrap", value: boolean(&c.RotateServing, false),
			help: "request the serving certificate of --port from the cluster and renew it before it expires"},
	}
}

// check validates the settings of a node with this kubeconfig.
func (c *Certificates) check(t *table, kubeconfig *string, served *Remote, root string) {
	if c.Dir == "" {
		c.Dir = filepath.Join(root, "pki")
	}
	join, bootstrap := t.at(kubeconfig), t.at(&c.Bootstrap)
	switch _, err := os.Stat(*kubeconfig); {
	case *kubeconfig == "" && c.Bootstrap != "":
		t.fail("%s: requires %s, the file to write once the cluster has signed a certificate", bootstrap, join)
	case *kubeconfig == "" || err == nil:
	case !errors.Is(err, fs.ErrNotExist) || c.Bootstrap == "":
		t.fail("%s: %w; omit the flag to run without a cluster, or set %s", join, err, bootstrap)
	default:
		if _, err := os.Stat(c.Bootstrap); err != nil {
			t.fail("%s: %w; it is required as long as %s %s does not exist", bootstrap, err, join, *kubeconfig)
		}
	}
	if c.RotateServing && served.CertFile != "" {
		t.fail("%s and %s are mutually exclusive; remove one of them", both{t.at(&c.RotateServing)},
			both{t.at(&served.CertFile)})
	}
}
