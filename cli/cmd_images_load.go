package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
)

func imagesLoadCommand() *cobra.Command {
	var socket, name string
	cmd := &cobra.Command{
		Use:   "load ARCHIVE...",
		Short: "Load images from archives",
		Long: `Load images from archives, for nodes without access to a registry.

An archive is the output of docker save, podman save, skopeo copy or
buildx -o type=oci, optionally compressed with gzip; - reads standard input. The
images get the names in the archive, as if they had been pulled, and are used by
pods with imagePullPolicy IfNotPresent or Never. From a multi-platform archive only
the image for this node's platform is loaded.

Loading requires containerd: podstead's private one, or another one with its command
ctr installed.`,
		Example: `  # Load the images of an archive
  podstead images load web.tar.gz

  # Load an OCI archive that has no image name
  podstead images load --name registry.example.com/web:2 web-oci.tar

  # Load from standard input
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
	socketFlag(cmd.Flags(), &socket)
	cmd.Flags().StringVar(&name, "name", "",
		"`name` for the image of a single-image archive, if it has none or a different one")
	return cmd
}

func loadArchive(cmd *cobra.Command, c *client.Client, file, name string) error {
	var from io.Reader = cmd.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("failed to read archive: %w", err)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return fmt.Errorf("failed to read archive: %s is a directory; load an OCI layout as a tar archive: tar -C %s -cf "+
				"- . | podstead images load -", file, file)
		}
		from = f
	}
	timer := terminal.StartTimer(cmd.ErrOrStderr(), "loading "+file)
	list, err := c.LoadImages(cmd.Context(), from, name)
	took := timer.Stop()
	if err != nil {
		err = imageError(cmd.Context(), err, "load of "+file)
		var exit *ExitError
		if errors.As(err, &exit) || client.IsUnreachable(err) {
			return err
		}
		return fmt.Errorf("%s: %w", file, err)
	}
	for i := range list {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "loaded %s (%s, %s) in %s\n", list[i].Name, objects.ShortID(list[i].ID),
			objects.FormatSize(list[i].Size), took.Round(100*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}
