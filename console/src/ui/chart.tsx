import { useEffect, useRef } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { useTheme } from './theme.ts'

export interface Series {
  label: string
  /** The name of a custom property of the style sheet, such as `--good`. */
  color: string
  /** One value per time; null where there is none. */
  values: readonly (number | null)[]
}

export interface ChartProps {
  /** What the chart shows, for screen readers; say the latest values as well. */
  label: string
  /** Seconds since the epoch, ascending. */
  times: readonly number[]
  series: readonly Series[]
  /** Formats the values of the axis and the legend. */
  format: (value: number) => string
  /** Pixels. */
  height?: number
}

/** A line chart over time. Load it with `lazy`, because its library is not part of the first load. */
export default function Chart({ label, times, series, format, height = 160 }: ChartProps) {
  const box = useRef<HTMLDivElement>(null)
  const theme = useTheme()
  const data = [times, ...series.map(({ values }) => values)] as uPlot.AlignedData
  const latest = useRef(data)
  latest.current = data
  const chart = useRef<uPlot | null>(null)
  const shape = series.map(({ label, color }) => `${label} ${color}`).join()
  // biome-ignore lint/correctness/useExhaustiveDependencies: the chart is built again for other series or another theme, not for other data
  useEffect(() => {
    const element = box.current
    if (element === null) return
    const style = getComputedStyle(document.documentElement)
    const color = (name: string) => style.getPropertyValue(name).trim()
    const axis = { stroke: color('--quiet'), grid: { stroke: color('--soft'), width: 1 }, ticks: { show: false } }
    const lines = series.map((one) => ({
      label: one.label,
      stroke: color(one.color),
      width: 1.5,
      points: { show: false },
      value: (_: uPlot, value: number | null) => (value === null ? '–' : format(value)),
    }))
    const options: uPlot.Options = {
      width: element.clientWidth || 300,
      height,
      legend: { live: true },
      cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_, min, max) => [Math.min(0, min ?? 0), Math.max(max ?? 1, 1e-9) * 1.1] } },
      axes: [axis, { ...axis, size: 64, values: (_, splits) => splits.map((value) => format(value)) }],
      series: [{}, ...lines],
    }
    const plot = new uPlot(options, latest.current, element)
    chart.current = plot
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }))
    observer.observe(element)
    return () => {
      observer.disconnect()
      plot.destroy()
      chart.current = null
    }
  }, [shape, theme, height])
  useEffect(() => chart.current?.setData(data))
  return <div ref={box} role="img" aria-label={label} />
}
