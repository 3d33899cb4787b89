package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/config/kubeletconfig"
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

func (c *Certificates) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.Bootstrap, "bootstrap-kubeconfig", "", "kubeconfig `file` for requesting the client certificate of this node if --kubeconfig does not exist or its certificate has expired; --kubeconfig is then written")
	f.StringVar(&c.Dir, "cert-dir", "", "`directory` of the certificates that the cluster signs (default: pki in --root-dir)")
	f.BoolVar(&c.Rotate, "rotate-certificates", true, "renew the client certificate from the cluster before it expires")
	f.BoolVar(&c.RotateServing, "rotate-server-certificates", false, "request the serving certificate of --port from the cluster and renew it before it expires")
}

// merge applies the settings of the file that no flag sets.
func (c *Certificates) merge(from *kubeletconfig.Remote, f *pflag.FlagSet) {
	take(f, "rotate-certificates", from.RotateCertificates, &c.Rotate)
	take(f, "rotate-server-certificates", from.ServerTLSBootstrap, &c.RotateServing)
}

// check validates the settings of a node with this kubeconfig.
func (c *Certificates) check(kubeconfig string, served *Remote, root string) error {
	var errs []error
	if c.Dir == "" {
		c.Dir = filepath.Join(root, "pki")
	}
	for _, path := range []*string{&c.Dir, &c.Bootstrap} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("failed to make %q absolute: %w", *path, err)
		}
		*path = abs
	}
	switch _, err := os.Stat(kubeconfig); {
	case kubeconfig == "" && c.Bootstrap != "":
		errs = append(errs, errors.New("--bootstrap-kubeconfig: requires --kubeconfig, the file to write once the cluster has signed a certificate"))
	case kubeconfig == "" || err == nil:
	case !errors.Is(err, fs.ErrNotExist) || c.Bootstrap == "":
		errs = append(errs, fmt.Errorf("--kubeconfig: %w; omit the flag to run without a cluster, or set --bootstrap-kubeconfig", err))
	default:
		if _, err := os.Stat(c.Bootstrap); err != nil {
			errs = append(errs, fmt.Errorf("--bootstrap-kubeconfig: %w; it is required as long as --kubeconfig %s does not exist", err, kubeconfig))
		}
	}
	if c.RotateServing && served.CertFile != "" {
		errs = append(errs, errors.New("--rotate-server-certificates (serverTLSBootstrap) and --tls-cert-file (tlsCertFile) are mutually exclusive; remove one of them"))
	}
	return errors.Join(errs...)
}
