package daemon

import (
	"github.com/podstead/podstead/httpapi/kubeapi"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/volumeview"
)

// newVolumeView creates what shows the volumes of claims.
func (d *daemon) newVolumeView() *volumeview.View {
	return &volumeview.View{
		Objects: d.sources.config.Objects(), Pods: d.sup, Meter: d.observers.stats, MaxAge: d.opts.Stats.DiskAge, Log: d.log,
	}
}

// claimVolumes returns the volumes of claims for the Kubernetes API, none if they cannot be read:
// podstead volumes reports why.
func claimVolumes(pods *supervisor.Supervisor) func() []kubeapi.ClaimVolume {
	return func() []kubeapi.ClaimVolume {
		directories, err := pods.ClaimDirectories()
		if err != nil {
			return nil
		}
		list := make([]kubeapi.ClaimVolume, 0, len(directories))
		for _, d := range directories {
			list = append(list, kubeapi.ClaimVolume{Namespace: d.Namespace, Name: d.Name, Path: d.Path, Created: d.Created})
		}
		bound, err := pods.ClaimBindings()
		if err != nil {
			return list
		}
		for i := range bound {
			list = append(list, kubeapi.ClaimVolume{Namespace: bound[i].Namespace, Name: bound[i].Claim,
				Volume: bound[i].Volume})
		}
		return list
	}
}
