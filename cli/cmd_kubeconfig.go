package cli

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
)

// access are the credentials of a client that cannot use the socket.
type access struct {
	api.Kubeconfig
	// verifyName is the name in the certificate of the daemon that clients verify; empty for that
	// of the URL.
	verifyName string
}

func kubeconfigCommand() *cobra.Command {
	var socket, role, output, revokeID, server string
	var duration time.Duration
	var revoke bool
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Create a kubeconfig for kubectl and other clients of the Kubernetes API",
		Long: `Create a kubeconfig for kubectl and other clients of the Kubernetes API.

From then on the daemon serves its API over TLS on 127.0.0.1, also after a restart.
The kubeconfig authenticates its user with a client certificate: keep it secret.

Roles: read can view pods, events, logs and metrics; exec can also run commands in
containers; edit can also change pods and other objects; admin can do everything that the
owner of the socket can do. Each role has a context of its own, podstead-NODE-ROLE, so that
one file can have several roles and nodes.

With --server the kubeconfig is for another machine, and connects to this URL. The name in
the URL need not be in the certificate of the daemon: clients verify another one, that is
the same for every address. Start the daemon with --address and --port for it.`,
		Example: `  # Write a kubeconfig to a new file and use it
  podstead kubeconfig > ~/.kube/podstead && kubectl --kubeconfig ~/.kube/podstead get pods -A

  # Merge a context into the default kubeconfig
  podstead kubeconfig --output ~/.kube/config

  # Create a kubeconfig for another machine
  podstead kubeconfig --server https://edge.example.com:10250 --role read > edge.kubeconfig

  # Create a read-only kubeconfig that is valid for a year
  podstead kubeconfig --role read --duration 8760h --output monitoring.kubeconfig

  # Revoke one kubeconfig by its ID
  podstead kubeconfig --revoke-id 5c1f0d7e63a94b0f9d2e8a7b6c5d4e3f

  # Revoke all kubeconfigs
  podstead kubeconfig --revoke`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := client.New(socket)
			if revoke {
				return c.RevokeKubeconfigs(cmd.Context())
			}
			if revokeID != "" {
				return c.RevokeKubeconfig(cmd.Context(), revokeID)
			}
			if !slices.Contains([]string{"read", "exec", "edit", "admin"}, role) {
				return usageError(fmt.Errorf("--role %q: must be read, exec, edit or admin", role))
			}
			if duration <= 0 && cmd.Flags().Changed("duration") {
				return usageError(fmt.Errorf("--duration %s: must be positive", duration))
			}
			if cmd.Flags().Changed("server") {
				if err := checkServer(server); err != nil {
					return usageError(err)
				}
			}
			return createKubeconfig(cmd, c, kubeconfigRequest{role: role, duration: duration, output: output, server: server})
		},
	}
	socketFlag(cmd.Flags(), &socket)
	cmd.Flags().StringVar(&role, "role", "admin", "role of the user: read, exec, edit or admin")
	durationVar(cmd.Flags(), &duration, "duration", 0,
		"`duration` for which the certificate is valid (default 24h, for the role read 720h)")
	cmd.Flags().StringVar(&server, "server", "", "`URL` of this node for clients on other machines, such as "+
		"https://edge.example.com:10250 (default: the port on 127.0.0.1)")
	cmd.Flags().StringVarP(&output, "output", "o", "",
		"`file` to merge the context into (default: write to standard output)")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "revoke every kubeconfig that was created so far, and close the port")
	cmd.Flags().StringVar(&revokeID, "revoke-id", "",
		"revoke the kubeconfig with this `ID`, which is printed when it is created and is in the log of the daemon")
	return cmd
}

// kubeconfigRequest are the flags of a kubeconfig.
type kubeconfigRequest struct {
	role, output, server string
	duration             time.Duration
}

// checkServer checks the URL of --server.
func checkServer(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("--server %q: must be a URL with a host and nothing else, such as https://edge.example.com:10250",
			text)
	}
	return nil
}

// useServer makes the credentials those of a client that connects to a URL from another machine.
func (a *access) useServer(cmd *cobra.Command, server string) error {
	if a.ServerName == "" {
		return errors.New("--server needs a daemon of the version of this command; restart the daemon")
	}
	u, err := url.Parse(server)
	if err != nil {
		return err
	}
	if u.Port() == "" {
		port := "10250"
		if _, own, err := net.SplitHostPort(a.RemoteAddress); err == nil {
			port = own
		}
		u.Host = net.JoinHostPort(u.Hostname(), port)
	}
	if a.RemoteAddress == "" {
		cmd.PrintErrf("the daemon serves no other machines yet, only %s: start it with --address and --port, or forward a "+
			"port to it\n", a.Server)
	}
	a.Server, a.verifyName = "https://"+u.Host, a.ServerName
	return nil
}

// createKubeconfig requests credentials and writes them to a file or to standard output.
func createKubeconfig(cmd *cobra.Command, c *client.Client, r kubeconfigRequest) error {
	issued, err := c.CreateKubeconfig(cmd.Context(), r.role, r.duration)
	if err != nil {
		return err
	}
	a, output := access{Kubeconfig: issued}, r.output
	if r.server != "" {
		if err := a.useServer(cmd, r.server); err != nil {
			return err
		}
	}
	if output == "" || output == "-" {
		data, err := yaml.Marshal(a.merge(nil))
		if err == nil {
			_, err = cmd.OutOrStdout().Write(data)
		}
		if err == nil {
			cmd.PrintErrf("kubeconfig %s is valid until %s\n", a.ID, a.Expires.Local().Format(time.DateTime))
		}
		return err
	}
	current, err := a.mergeInto(output)
	if err != nil {
		return err
	}
	cmd.PrintErrf("context %s written to %s, valid until %s, ID %s\n", a.context(), output,
		a.Expires.Local().Format(time.DateTime), a.ID)
	if current != a.context() {
		cmd.PrintErrf("the current context is still %s; use kubectl --context %s\n", current, a.context())
	}
	return nil
}

// context returns the name of the context. Each role has its own, so that a kubeconfig with
// few permissions does not replace one with more.
func (a *access) context() string { return "podstead-" + a.Node + "-" + a.Role }

// merge adds a cluster, a user and a context of one name to a kubeconfig and replaces
// existing entries of that name. Everything else, including the current context, is kept.
func (a *access) merge(into map[string]any) map[string]any {
	if into == nil {
		into = map[string]any{"apiVersion": "v1", "kind": "Config", "preferences": map[string]any{}}
	}
	name, encode := a.context(), func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	cluster := map[string]any{"server": a.Server, "certificate-authority-data": encode(a.CertificateAuthority)}
	if a.verifyName != "" {
		cluster["tls-server-name"] = a.verifyName
	}
	for list, entry := range map[string]map[string]any{
		"clusters": {"cluster": cluster},
		"users": {"user": map[string]any{"client-certificate-data": encode(a.ClientCertificate),
			"client-key-data": encode(a.ClientKey)}},
		"contexts": {"context": map[string]any{"cluster": name, "user": name}},
	} {
		entry["name"] = name
		old, _ := into[list].([]any)
		all := make([]any, 0, len(old)+1)
		for _, e := range old {
			if m, ok := e.(map[string]any); !ok || m["name"] != name {
				all = append(all, e)
			}
		}
		into[list] = append(all, entry)
	}
	if current, _ := into["current-context"].(string); current == "" {
		into["current-context"] = name
	}
	return into
}

// mergeInto merges into a file and returns its current context.
func (a *access) mergeInto(path string) (current string, err error) {
	var config map[string]any
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := yaml.Unmarshal(data, &config); err != nil {
			return "", fmt.Errorf("%s is not a kubeconfig and was left unchanged: %w", path, err)
		}
		if len(config) > 0 && config["kind"] != "Config" {
			return "", fmt.Errorf("%s is not a kubeconfig and was left unchanged: kind is %v, not Config", path, config["kind"])
		}
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("failed to read kubeconfig: %w", err)
	}
	if len(config) == 0 {
		config = nil
	}
	config = a.merge(config)
	if data, err = yaml.Marshal(config); err != nil {
		return "", err
	}
	current, _ = config["current-context"].(string)
	return current, writePrivate(path, data)
}

// writePrivate replaces a file atomically; only its owner can read it, who stays the owner of a
// file that exists.
func writePrivate(path string, data []byte) error {
	// A symlink is kept: its target is replaced.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("failed to write kubeconfig: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".kubeconfig-")
	if err != nil {
		return fmt.Errorf("failed to write kubeconfig: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if fi, e := os.Stat(path); e == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
			err = errors.Join(err, f.Chown(int(st.Uid), int(st.Gid)))
		}
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("failed to write kubeconfig: %w", err)
	}
	return nil
}
