/** A sample of a metric in the Prometheus text format. */
export interface ScrapedSample {
  name: string
  labels: Record<string, string>
  value: number
}

export interface Scraped {
  text: string
  /** The type and the help text of each metric, by its name. */
  metrics: Map<string, { type: string; help: string }>
  samples: ScrapedSample[]
  /** Returns the value of the only sample with this name and at least these labels; undefined if there is none. */
  value: (name: string, labels?: Record<string, string>) => number | undefined
  /** Returns the samples with this name and at least these labels. */
  all: (name: string, labels?: Record<string, string>) => ScrapedSample[]
}

/** Parses the Prometheus text format. Throws on a line that it cannot parse, and on a repeated series. */
export function scraped(text: string): Scraped {
  const metrics = new Map<string, { type: string; help: string }>()
  const samples: ScrapedSample[] = []
  const seen = new Set<string>()
  for (const line of text.split('\n')) {
    const [, kind, about = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? []
    if (kind === 'HELP') metrics.set(about, { type: '', help: rest })
    else if (kind === 'TYPE') Object.assign(metrics.get(about) as object, { type: rest })
    else if (line !== '') samples.push(sampleOf(line, seen))
  }
  const all: Scraped['all'] = (name, labels = {}) =>
    samples.filter(
      (one) => one.name === name && Object.entries(labels).every(([key, text]) => one.labels[key] === text),
    )
  const value: Scraped['value'] = (name, labels) => {
    const found = all(name, labels)
    if (found.length > 1) throw new Error(`${found.length} samples of ${name} have ${JSON.stringify(labels)}`)
    return found[0]?.value
  }
  return { text, metrics, samples, value, all }
}

function sampleOf(line: string, seen: Set<string>): ScrapedSample {
  const [, name, labels = '', value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line) ?? []
  if (name === undefined) throw new Error(`Not a sample: ${line}`)
  const series = `${name}{${labels}}`
  if (seen.has(series)) throw new Error(`Repeated: ${series}`)
  seen.add(series)
  const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, text]) => [key, text])
  return { name, labels: Object.fromEntries(pairs), value: Number(value) }
}
