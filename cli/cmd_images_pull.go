package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
)

func imagesPullCommand() *cobra.Command {
	var socket string
	var secrets []string
	cmd := &cobra.Command{
		Use:   "pull IMAGE...",
		Short: "Pull images",
		Long: `Pull images before a pod needs them.

As for pods, the credentials of the node are used: docker config files and the
credential providers. --secret adds a Secret from the manifests.

Image garbage collection can remove an image that no manifest refers to.`,
		Example: `  # Pull an image
  podstead images pull docker.io/library/nginx:1.27

  # Pull a private image with a Secret of namespace shop
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
	socketFlag(cmd.Flags(), &socket)
	cmd.Flags().StringArrayVar(&secrets, "secret", nil,
		"`[NAMESPACE/]NAME` of a Secret with registry credentials; can be repeated, all must be in one namespace")
	return cmd
}

func pullImage(cmd *cobra.Command, c *client.Client, name string, secrets []string) error {
	p := api.Pull{Image: name}
	for _, s := range secrets {
		namespace, secret, ok := strings.Cut(s, "/")
		if !ok {
			namespace, secret = "default", s
		}
		if p.Namespace != "" && p.Namespace != namespace {
			return fmt.Errorf("--secret %s: all Secrets must be in one namespace, but another one is in %s", s, p.Namespace)
		}
		p.Namespace, p.Secrets = namespace, append(p.Secrets, secret)
	}
	timer := terminal.StartTimer(cmd.ErrOrStderr(), "pulling "+name)
	got, err := c.PullImage(cmd.Context(), p)
	took := timer.Stop()
	if err != nil {
		return imageError(cmd.Context(), err, "pull of "+name)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "pulled %s (%s, %s) in %s\n", got.Name, objects.ShortID(got.ID),
		objects.FormatSize(got.Size), took.Round(100*time.Millisecond))
	return err
}

// imageError converts the error of a long image request: the operation is named if Ctrl-C canceled it.
func imageError(ctx context.Context, err error, operation string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &ExitError{Code: ExitInterrupted, Err: errors.New(operation + " canceled")}
	}
	return err
}
