//! The faults that an HTTPPolicy injects.

use std::time::Duration;

use crate::duration;
use crate::model::{ErrorResponse, Faults, Share};
use crate::objects::gateway::{AbortSpec, DelaySpec, FaultsSpec};
use crate::translate::fault::FieldFault;

/// The shortest and the longest delay.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(30);

/// Parses the faults. A fault that is not valid is left out, and its field and message are added to `left_out`: requests then pass without
/// it.
pub fn parse(spec: &FaultsSpec, left_out: &mut Vec<FieldFault>) -> Faults {
    let FaultsSpec { delay, abort } = spec;
    let mut note = |fault: FieldFault| left_out.push(fault);
    let delay = delay.as_ref().and_then(|delay| self::delay(delay).map_err(&mut note).ok());
    let abort = abort.as_ref().and_then(|abort| self::abort(abort).map_err(&mut note).ok());
    let is_any = |share: Share| share.millionths() > 0;
    Faults { delay: delay.filter(|(_, share)| is_any(*share)), abort: abort.filter(|(_, share)| is_any(*share)) }
}

fn delay(spec: &DelaySpec) -> Result<(Duration, Share), FieldFault> {
    let DelaySpec { duration: text, percent } = spec;
    let time = duration::parse(text).filter(|time| (SHORTEST..=LONGEST).contains(time));
    let fault = || FieldFault::new(".delay.duration", format!("{text:?} is not a time from 1ms to 30s, such as 500ms"));
    Ok((time.ok_or_else(fault)?, share(".delay", *percent)?))
}

fn abort(spec: &AbortSpec) -> Result<(u16, Share), FieldFault> {
    let AbortSpec { status, percent } = spec;
    if !ErrorResponse::STATUSES.contains(status) {
        return Err(FieldFault::new(".abort.status", format!("{status} is not a status from 400 to 599")));
    }
    Ok((*status, share(".abort", *percent)?))
}

fn share(field: &str, percent: Option<u32>) -> Result<Share, FieldFault> {
    let percent = percent.unwrap_or(100);
    let fault = || FieldFault::new(format!("{field}.percent"), format!("{percent} is not between 0 and 100"));
    Share::new(percent, 100).ok_or_else(fault)
}
