/** Text from the service; the parts in backticks are rendered as code. */
export function Prose({ children }: { children: string }) {
  // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no other key, and no state
  return children.split('`').map((part, at) => (at % 2 === 1 ? <code key={at}>{part}</code> : part))
}

/** Preformatted text, such as JSON. The box is focusable, so that long text can be scrolled with the keyboard. */
export function Code({ label, children }: { label: string; children: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard
    <section aria-label={label} tabIndex={0} className="code-box">
      <pre>{children}</pre>
    </section>
  )
}
