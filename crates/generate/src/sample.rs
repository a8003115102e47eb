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
    pub fn choose(&mut self, mut logits: Vec<f32>, before: &[u32]) -> Option<u32> {
        self.penalize(&mut logits, before);
        let greatest = greatest(&logits)?;
        if self.options.temperature <= 0.0 {
            return Some(greatest);
        }
        let most = logits[greatest as usize];
        let weight =
            |logit: f32| (f64::from(logit - most) / f64::from(self.options.temperature)).exp();
        let numbers = (0_u32..).zip(&logits).filter(|(_, logit)| !logit.is_nan());
        let likely = numbers.map(|(token, &logit)| (token, weight(logit))).collect();
        let mut likely = Likeliest { tokens: likely, sorted: 0 };
        if self.options.top_k > 0 {
            likely.truncate(self.options.top_k);
        }
        let least = likely.get(0)?.1 * f64::from(self.options.min_p);
        likely.retain(|weight| weight >= least);
        if self.options.top_p < 1.0 {
            let enough = likely.sum() * f64::from(self.options.top_p);
            let (mut reached, mut count) = (0.0, 0);
            while reached < enough
                && let Some((_, weight)) = likely.get(count)
            {
                reached += weight;
                count += 1;
            }
            likely.truncate(count.max(1));
        }
        let mut left = self.chance() * likely.sum();
        let mut drawn = None;
        for place in 0.. {
            let Some((token, weight)) = likely.get(place) else { break };
            drawn = Some(token);
            left -= weight;
            if left < 0.0 {
                break;
            }
        }
        drawn
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

/// Tokens with their weights, of which as many are in order, the heaviest first, as have been
/// looked at: that is few of them. Of equal ones the first token comes first.
struct Likeliest {
    tokens: Vec<(u32, f64)>,
    sorted: usize,
}

/// How many are put in order at least.
const FEW: usize = 64;

impl Likeliest {
    /// The token at a place of that order.
    fn get(&mut self, place: usize) -> Option<(u32, f64)> {
        if place >= self.tokens.len() {
            return None;
        }
        if place >= self.sorted {
            let order = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
            let rest = &mut self.tokens[self.sorted..];
            let count = (place + 1 - self.sorted).max(4 * self.sorted).max(FEW).min(rest.len());
            if count < rest.len() {
                _ = rest.select_nth_unstable_by(count, order);
            }
            rest[..count].sort_unstable_by(order);
            self.sorted += count;
        }
        Some(self.tokens[place])
    }

    /// Keeps the first so many.
    fn truncate(&mut self, count: usize) {
        if count > 0 && count < self.tokens.len() {
            _ = self.get(count - 1);
            self.tokens.truncate(count);
            self.sorted = count;
        }
    }

    /// Keeps those of weights that are wanted, which the heaviest are.
    fn retain(&mut self, is_wanted: impl Fn(f64) -> bool) {
        self.tokens.retain(|(_, weight)| is_wanted(*weight));
        self.sorted = self.sorted.min(self.tokens.len());
    }

    /// All weights together.
    fn sum(&self) -> f64 {
        self.tokens.iter().map(|(_, weight)| weight).sum()
    }
}

/// The first of the greatest numbers.
pub(crate) fn greatest(logits: &[f32]) -> Option<u32> {
    let mut best: Option<(u32, f32)> = None;
    for (token, &logit) in (0_u32..).zip(logits) {
        if !logit.is_nan() && best.is_none_or(|(_, most)| logit > most) {
            best = Some((token, logit));
        }
    }
    best.map(|(token, _)| token)
}

#[cfg(test)]
mod tests {
    use super::{Likeliest, Sampler, SamplerOptions};

    #[test]
    fn the_heaviest_come_first() {
        let of = |shift: u32| -> Vec<(u32, f64)> {
            let weight = |token: u32| f64::from(token.wrapping_mul(2_654_435_761) >> shift);
            (0..3000).map(|token| (token, weight(token))).collect()
        };
        // Some of these are equal.
        let all = of(22);
        let mut sorted = all.clone();
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut likely = Likeliest { tokens: all, sorted: 0 };
        for (place, wanted) in sorted.iter().enumerate() {
            assert_eq!(likely.get(place).as_ref(), Some(wanted));
        }
        let mut likely = Likeliest { tokens: of(0), sorted: 0 };
        sorted = of(0);
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
        likely.truncate(200);
        likely.retain(|weight| weight >= sorted[99].1);
        assert_eq!((likely.tokens.len(), likely.get(42)), (100, Some(sorted[42])));
        assert_eq!(likely.get(100), None);
    }

    #[test]
    fn tokens_are_drawn_as_often_as_they_are_likely() {
        let drawn = |options: SamplerOptions| {
            let mut sampler = Sampler::new(SamplerOptions { temperature: 1.0, ..options });
            let logits: Vec<f32> = [0.4_f32, 0.1, 0.3, 0.2].map(f32::ln).to_vec();
            let mut counts = [0_u32; 4];
            for _ in 0..10_000 {
                counts[sampler.choose(logits.clone(), &[]).expect("a token") as usize] += 1;
            }
            counts.map(|count| (f64::from(count) / 1000.0).round())
        };
        let plain = SamplerOptions::default();
        assert_eq!(drawn(plain.clone()), [4.0, 1.0, 3.0, 2.0]);
        assert_eq!(drawn(SamplerOptions { top_k: 1, ..plain.clone() }), [10.0, 0.0, 0.0, 0.0]);
        assert_eq!(drawn(SamplerOptions { top_p: 0.65, ..plain.clone() }), [6.0, 0.0, 4.0, 0.0]);
        assert_eq!(drawn(SamplerOptions { min_p: 0.6, ..plain }), [6.0, 0.0, 4.0, 0.0]);
    }
}
