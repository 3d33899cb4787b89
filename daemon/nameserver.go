package daemon

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/node/nameserver"
	"github.com/podstead/podstead/node/process"
)

// nameserverMemory is Go's soft memory limit of the name server, in bytes: several times what it
// needs with a full cache.
const nameserverMemory = 48 << 20

// nameserverCommand is what the daemon starts as the name server of pods. Users have no use for
// it, so that it is hidden.
func nameserverCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:    nameserverName,
		Short:  "Answer the DNS queries of pods; the daemon starts it",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			process.LimitMemoryTo(nameserverMemory)
			log := slog.New(slog.NewTextHandler(os.Stderr, nil))
			return nameserver.New(nameserver.Directory(dir), log).Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&dir, "directory", "", "`directory` with the snapshot that the daemon writes")
	return cmd
}

const nameserverName = "nameserver"

// nameserverArgs returns the arguments of the process, with the name of the program.
func nameserverArgs(dir nameserver.Directory) []string {
	return []string{"podstead", nameserverName, "--directory", string(dir)}
}
