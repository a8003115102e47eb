//! Which token follows, by logits: the likeliest, or one by chance.

/// How a token is chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerOptions {
    /// What logits are divided by; 0 is the likeliest token, always.
    pub temperature: f32,
    /// The likeliest so many tokens count; 0 is all.
    pub top_k: usize,
    /// The likeliest tokens that together are at least so likely count.
    pub top_p: f32,
    /// Tokens count that are at least so many times as likely as the likeliest.
    pub min_p: f32,
    /// What the logits of tokens are divided by, or multiplied by where they are negative, that are
    /// among the last ones.
    pub repetition_penalty: f32,
    /// What is taken from the logits of tokens among the last ones, for each time.
    pub frequency_penalty: f32,
    /// What is taken from the logits of tokens among the last ones, once.
    pub presence_penalty: f32,
    /// How many tokens are the last ones.
    pub penalized: usize,
    /// What all chances follow from.
    pub seed: u64,
}

impl Default for SamplerOptions {
    fn default() -> SamplerOptions {
        SamplerOptions {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            penalized: 64,
            seed: 0,
        }
    }
}

/// What chooses tokens.
#[derive(Clone, Debug)]
pub struct Sampler {
    options: SamplerOptions,
    /// The state of the generator of chances.
    chance: u64,
}

impl Sampler {
    /// The same seed chooses the same tokens by the same logits.
    #[must_use]
    pub fn new(options: SamplerOptions) -> Sampler {
        let chance = options.seed;
        Sampler { options, chance }
    }

    /// A token, by its logits and the tokens before; none where no logit is a number. Of equal ones
    /// the first is the likeliest.
    pub fn choose(&mut self, logits: &[f32], before: &[u32]) -> Option<u32> {
        let mut logits = logits.to_vec();
        self.penalize(&mut logits, before);
        let greatest = greatest(&logits)?;
        if self.options.temperature <= 0.0 {
            return Some(greatest);
        }
        let most = logits[greatest as usize];
        let weight =
            |logit: f32| (f64::from(logit - most) / f64::from(self.options.temperature)).exp();
        let numbers = (0_u32..).zip(&logits).filter(|(_, logit)| !logit.is_nan());
        let mut likely: Vec<(u32, f64)> =
            numbers.map(|(token, &logit)| (token, weight(logit))).collect();
        likely.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        if self.options.top_k > 0 {
            likely.truncate(self.options.top_k);
        }
        let least = likely[0].1 * f64::from(self.options.min_p);
        likely.retain(|(_, weight)| *weight >= least);
        let sum: f64 = likely.iter().map(|(_, weight)| weight).sum();
        let mut reached = 0.0;
        let enough = likely.iter().position(|(_, weight)| {
            reached += weight;
            reached >= sum * f64::from(self.options.top_p)
        });
        likely.truncate(enough.map_or(likely.len(), |last| last + 1));
        let sum: f64 = likely.iter().map(|(_, weight)| weight).sum();
        let mut left = self.chance() * sum;
        let drawn = likely.iter().find(|(_, weight)| {
            left -= weight;
            left < 0.0
        });
        drawn.or(likely.last()).map(|(token, _)| *token)
    }

    fn penalize(&self, logits: &mut [f32], before: &[u32]) {
        let own = &self.options;
        let is_plain = own.repetition_penalty == 1.0
            && own.frequency_penalty == 0.0
            && own.presence_penalty == 0.0;
        if is_plain {
            return;
        }
        let mut last = before[before.len().saturating_sub(own.penalized)..].to_vec();
        last.sort_unstable();
        for run in last.chunk_by(|a, b| a == b) {
            let Some(logit) = logits.get_mut(run[0] as usize) else { continue };
            let penalty = own.repetition_penalty;
            *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            *logit -= own.frequency_penalty * run.len() as f32 + own.presence_penalty;
        }
    }

    /// A number from 0 to 1, 1 left out: splitmix64 (Steele, Lea and Flood, "Fast splittable
    /// pseudorandom number generators", 2014).
    fn chance(&mut self) -> f64 {
        self.chance = self.chance.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.chance;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The first of the greatest numbers.
fn greatest(logits: &[f32]) -> Option<u32> {
    let mut best: Option<(u32, f32)> = None;
    for (token, &logit) in (0_u32..).zip(logits) {
        if !logit.is_nan() && best.is_none_or(|(_, most)| logit > most) {
            best = Some((token, logit));
        }
    }
    best.map(|(token, _)| token)
}
