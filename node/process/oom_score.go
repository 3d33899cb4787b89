package process

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
)

// oomScoreAdj is the kubelet's own: the kernel should kill a pod before the
// daemon that restarts it.
const oomScoreAdj = "-999"

// ProtectFromOOM lowers this process's OOM score. It only warns on a host that
// does not allow this.
func ProtectFromOOM(log *slog.Logger) {
	err := os.WriteFile("/proc/self/oom_score_adj", []byte(oomScoreAdj), 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		log.Warn("Not allowed to lower oom_score_adj (no CAP_SYS_RESOURCE); under memory pressure the kernel may kill " +
			"podstead before a pod, and containers would keep running")
	case err != nil:
		log.Warn("Failed to lower oom_score_adj", "err", err)
	}
}
