package cli

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/cmd/podstead/cli/objects"
	"github.com/podstead/podstead/cmd/podstead/cli/terminal"
)

func imagesLoadCommand() *cobra.Command {
	var socket, name string
	cmd := &cobra.Command{
		Use:   "load ARCHIVE...",
		Short: "Load images from archives, where there is no registry",
		Long: `Load images from archives, where there is no registry.

An archive is what docker save, podman save, skopeo copy or buildx -o type=oci
writes, as it is or by gzip; - is the standard input. Its images have the names
that the archive gives them, as if they had been pulled, and pods find them
there with imagePullPolicy IfNotPresent or Never. Of an archive for several
platforms the part for this machine is loaded.

Works with containerd: podstead's own, or another one with its command ctr.`,
		Example: `  podstead images load web.tar.gz
  podstead images load --name registry.example.com/web:2 web-oci.tar
  ssh builder docker save web:2 | podstead images load -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, file := range args {
				if err := loadArchive(cmd, client.New(socket), file, name); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&socket, "api-socket", DefaultSocket, "the daemon's `socket`")
	cmd.Flags().StringVar(&name, "name", "", "the `name` of the image, for an archive of one image that gives it none, or another")
	return cmd
}

func loadArchive(cmd *cobra.Command, c *client.Client, file, name string) error {
	var from io.Reader = cmd.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("cannot read the archive: %w", err)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return fmt.Errorf("cannot read the archive: %s is a folder; an OCI layout is loaded as a tar of it: tar -C %s -cf - . | podstead images load -", file, file)
		}
		from = f
	}
	w := terminal.StartTimer(cmd.ErrOrStderr(), "loading "+file)
	var list []objects.Image
	// Without a closer: the file is closed here, and what is piped in is not.
	err := c.PostBody(cmd.Context(), "/podstead/v1/images/load?"+url.Values{"name": {name}}.Encode(), io.MultiReader(from), &list)
	took := w.Stop()
	if err != nil {
		err = ofImage(cmd.Context(), err, "the load of "+file)
		var exit *ExitError
		if errors.As(err, &exit) || client.IsUnreachable(err) {
			return err
		}
		return fmt.Errorf("%s: %w", file, err)
	}
	for i := range list {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "loaded %s (%s, %s) in %s\n", list[i].Name, objects.ShortID(list[i].ID), objects.FormatSize(list[i].Size), took.Round(100*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}
