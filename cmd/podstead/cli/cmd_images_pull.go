package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/cmd/podstead/cli/objects"
	"github.com/podstead/podstead/cmd/podstead/cli/terminal"
)

func imagesPullCommand() *cobra.Command {
	var socket string
	var secrets []string
	cmd := &cobra.Command{
		Use:   "pull IMAGE...",
		Short: "Pull images before a pod needs them",
		Long: `Pull images before a pod needs them.

The credentials of the node are used, as for pods: docker's config files and the
credential providers. --secret adds a Secret that lies beside the manifests.

An image that no manifest names is not kept when its disk fills.`,
		Example: `  podstead images pull docker.io/library/nginx:1.27
  podstead images pull --secret shop/login registry.example.com/app:2`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if err := pullImage(cmd, client.New(socket), name, secrets); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&socket, "api-socket", DefaultSocket, "the daemon's `socket`")
	cmd.Flags().StringArrayVar(&secrets, "secret", nil, "a `[NAMESPACE/]NAME` of a Secret with a login; may be repeated, all of one namespace")
	return cmd
}

func pullImage(cmd *cobra.Command, c *client.Client, name string, secrets []string) error {
	q := url.Values{"image": {name}}
	for _, s := range secrets {
		namespace, secret, ok := strings.Cut(s, "/")
		if !ok {
			namespace, secret = "default", s
		}
		if q.Has("namespace") && q.Get("namespace") != namespace {
			return fmt.Errorf("--secret %s: all must be of one namespace, and there is one of %s", s, q.Get("namespace"))
		}
		q.Set("namespace", namespace)
		q.Add("secret", secret)
	}
	w := terminal.StartTimer(cmd.ErrOrStderr(), "pulling "+name)
	var got objects.Image
	err := c.Post(cmd.Context(), "/podstead/v1/images/pull?"+q.Encode(), &got)
	took := w.Stop()
	if err != nil {
		return ofImage(cmd.Context(), err, "the pull of "+name)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "pulled %s (%s, %s) in %s\n", got.Name, objects.ShortID(got.ID), objects.FormatSize(got.Size), took.Round(100*time.Millisecond))
	return err
}

// ofImage is an error of a long request about images: what the daemon says of
// the image is all there is to say. what is what was given up by Ctrl-C.
func ofImage(ctx context.Context, err error, what string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &ExitError{Code: 130, Err: errors.New(what + " was given up")}
	}
	var r *client.StatusError
	if errors.As(err, &r) && !strings.HasPrefix(r.Status, fmt.Sprint(http.StatusNotFound)) {
		return errors.New(r.Message)
	}
	return err
}
