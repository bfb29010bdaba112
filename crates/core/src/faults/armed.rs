//! Points that are armed: for the process, and for a thread in its place.

use super::{Action, Fault, Hook, Plan, PlanError, Plant, Point, plant_in_process};
use std::{
    cell::RefCell,
    future::poll_fn,
    sync::{
        Arc, Condvar, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Poll, Waker},
};

/// A gate that is closed until it is opened.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<GateState>,
    opened: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    open: bool,
    waiting: Vec<Waker>,
}

impl Gate {
    /// Lets everybody through, also those that come later.
    pub fn open(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open = true;
        for waker in state.waiting.drain(..) {
            waker.wake();
        }
        drop(state);
        self.opened.notify_all();
    }

    async fn pass(&self) {
        poll_fn(|context| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.open {
                return Poll::Ready(());
            }
            state.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn pass_blocking(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(
            self.opened
                .wait_while(state, |state| !state.open)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}

/// A plan with what carries it out and how often each point was passed.
#[derive(Debug)]
struct Armed {
    plan: Plan,
    hook: Arc<dyn Hook>,
    hits: [AtomicU64; Point::ALL.len()],
}

impl Armed {
    fn new(plan: Plan, hook: Arc<dyn Hook>) -> Arc<Self> {
        Arc::new(Self {
            plan,
            hook,
            hits: [const { AtomicU64::new(0) }; Point::ALL.len()],
        })
    }

    /// Counts a pass, and says what is to happen.
    fn pass(&self, point: Point) -> Option<Action> {
        let hit = self.hits[point as usize].fetch_add(1, Ordering::SeqCst) + 1;
        let rule = self
            .plan
            .rules
            .iter()
            .find(|(at, trigger, _)| *at == point && trigger.fires(hit, point));
        let action = rule.map(|(_, _, action)| action.clone())?;
        self.hook.fired(point.name());
        Some(action)
    }
}

static PROCESS: RwLock<Option<Arc<Armed>>> = RwLock::new(None);

thread_local! {
    static THREAD: RefCell<Option<Arc<Armed>>> = const { RefCell::new(None) };
}

/// Arms the points of the whole process, for good.
pub fn arm_process(plan: Plan, hook: Arc<dyn Hook>) {
    *PROCESS.write().unwrap_or_else(PoisonError::into_inner) = Some(Armed::new(plan, hook));
}

/// Arms the points of the whole process and plants bugs in it, as texts say: rules as a plan has them, names of bugs with
/// semicolons between them.
pub fn arm_process_by(rules: &str, bugs: &str, hook: Arc<dyn Hook>) -> Result<(), String> {
    let plan: Plan = rules.parse().map_err(|error: PlanError| error.to_string())?;
    for name in bugs.split(';').map(str::trim).filter(|name| !name.is_empty()) {
        plant_in_process(
            Plant::named(name).ok_or_else(|| format!("`{name}` is no bug that can be planted"))?,
        );
    }
    arm_process(plan, hook);
    Ok(())
}

/// Arms the points of this thread in place of those of the process, for as long as the scope lives.
#[must_use = "the points are disarmed with the scope"]
pub fn arm_thread(plan: Plan, hook: Arc<dyn Hook>) -> Scope {
    let armed = Armed::new(plan, hook);
    let before = THREAD.with_borrow_mut(|thread| thread.replace(Arc::clone(&armed)));
    Scope { armed, before }
}

/// Points of a thread that are armed.
#[derive(Debug)]
pub struct Scope {
    armed: Arc<Armed>,
    before: Option<Arc<Armed>>,
}

impl Scope {
    /// How often a point was passed.
    pub fn hits(&self, point: Point) -> u64 {
        self.armed.hits[point as usize].load(Ordering::SeqCst)
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let before = self.before.take();
        THREAD.with_borrow_mut(|thread| *thread = before);
    }
}

fn armed() -> Option<Arc<Armed>> {
    THREAD
        .with_borrow(Clone::clone)
        .or_else(|| PROCESS.read().unwrap_or_else(PoisonError::into_inner).clone())
}

/// How often a point was passed, in this scope.
pub fn hits(point: Point) -> u64 {
    armed().map_or(0, |armed| armed.hits[point as usize].load(Ordering::SeqCst))
}

/// Whether the next one that comes by notices something. Whoever has to prepare for that asks first.
pub fn is_armed(point: Point) -> bool {
    armed().is_some_and(|armed| {
        let hit = armed.hits[point as usize].load(Ordering::SeqCst) + 1;
        let mut rules = armed.plan.rules.iter();
        rules.any(|(at, trigger, _)| *at == point && trigger.fires(hit, point))
    })
}

/// Comes by a point.
pub async fn at(point: Point) -> Option<Fault> {
    let armed = armed()?;
    match armed.pass(point)? {
        Action::Pretend(fault) => return Some(fault),
        Action::Delay { ms } => armed.hook.sleep_ms(ms).await,
        Action::Hold(gate) => gate.pass().await,
        Action::Die => {
            armed.hook.die();
            std::future::pending::<()>().await;
        }
    }
    None
}

/// Comes by a point on a thread that may block.
pub fn at_blocking(point: Point) -> Option<Fault> {
    let armed = armed()?;
    match armed.pass(point)? {
        Action::Pretend(fault) => return Some(fault),
        Action::Delay { ms } => armed.hook.sleep_ms_blocking(ms),
        Action::Hold(gate) => gate.pass_blocking(),
        Action::Die => {
            armed.hook.die();
            loop {
                std::thread::park();
            }
        }
    }
    None
}
