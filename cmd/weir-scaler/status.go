package main

import (
	"go.uber.org/zap"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/status"
	"github.com/weir-project/weir/core/control"
)

// checks takes in what EC2 says of its instances when it is asked.
func (l *loop) checks() status.Handlers {
	return status.Handlers{
		Found: func(f status.Found, first bool) {
			if first {
				l.log.Info("EC2 tells of an instance", zap.String("category", f.Category), zap.String("instance", f.Notice.InstanceID),
					zap.String("what", f.Notice.Action), zap.Timep("deadline", f.Notice.Deadline))
				l.watch.m.StatusUnhealthy.WithLabelValues(f.Category).Inc()
			}
			l.box.put(control.Notice{Notice: f.Notice})
		},
		State: func(err error) {
			switch {
			case err == nil:
				l.log.Info("EC2 is asked for the status of instances")
			case cloud.KindOf(err) == cloud.Auth:
				l.log.Warn("the right to ask for the status of instances is missing: failed checks and planned maintenance are known from events alone", zap.Error(err))
			default:
				l.log.Warn("the status of instances cannot be asked for, it is tried again", zap.Error(err))
			}
		},
	}
}
