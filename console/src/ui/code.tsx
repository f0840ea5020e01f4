/** Text in its lines, such as a message or JSON. A long text scrolls; the box can be focused, to scroll it by keyboard. */
export function Code({ label, children }: { label: string; children: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard
    <section aria-label={label} tabIndex={0} className="code-box">
      <pre>{children}</pre>
    </section>
  )
}
